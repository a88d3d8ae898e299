// Goal: the public contract is documented down to the last field. Method: read
// the descriptors that protoc wrote with source information.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace steadystate::proto_comments_test {
namespace {

// Adds the full names of descriptors that have no comment before them.
class CommentCheck {
 public:
  template <typename Descriptor>
  void Check(const Descriptor* descriptor, const std::string& name) {
    google::protobuf::SourceLocation location;
    if (!descriptor->GetSourceLocation(&location) ||
        location.leading_comments.empty()) {
      missing_.push_back(name);
    }
  }

  void CheckEnum(const google::protobuf::EnumDescriptor* type) {
    Check(type, type->full_name());
    for (int i = 0; i < type->value_count(); ++i) {
      Check(type->value(i), type->value(i)->full_name());
    }
  }

  void CheckMessage(const google::protobuf::Descriptor* type) {
    if (type->options().map_entry()) return;
    Check(type, type->full_name());
    for (int i = 0; i < type->field_count(); ++i) {
      Check(type->field(i), type->field(i)->full_name());
    }
    for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
      Check(type->oneof_decl(i), type->oneof_decl(i)->full_name());
    }
    for (int i = 0; i < type->nested_type_count(); ++i) {
      CheckMessage(type->nested_type(i));
    }
    for (int i = 0; i < type->enum_type_count(); ++i) {
      CheckEnum(type->enum_type(i));
    }
  }

  void CheckFile(const google::protobuf::FileDescriptor* file) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      CheckMessage(file->message_type(i));
    }
    for (int i = 0; i < file->enum_type_count(); ++i) {
      CheckEnum(file->enum_type(i));
    }
    for (int i = 0; i < file->service_count(); ++i) {
      Check(file->service(i), file->service(i)->full_name());
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        Check(file->service(i)->method(j),
              file->service(i)->method(j)->full_name());
      }
    }
  }

  const std::vector<std::string>& missing() const { return missing_; }

 private:
  std::vector<std::string> missing_;
};

TEST(ProtoCommentsTest, EverythingHasOne) {
  std::ifstream file(STEADYSTATE_DESCRIPTORS, std::ios::binary);
  google::protobuf::FileDescriptorSet set;
  ASSERT_TRUE(set.ParseFromIstream(&file));
  ASSERT_GT(set.file_size(), 4);
  google::protobuf::DescriptorPool pool;
  CommentCheck check;
  for (const google::protobuf::FileDescriptorProto& proto : set.file()) {
    const google::protobuf::FileDescriptor* const built = pool.BuildFile(proto);
    ASSERT_NE(built, nullptr) << proto.name();
    // Those are not ours.
    if (proto.name().find("google/protobuf/") != 0) check.CheckFile(built);
  }
  EXPECT_THAT(check.missing(), testing::IsEmpty());
}

}  // namespace
}  // namespace steadystate::proto_comments_test
