#include "server/rpc/reflection_service.h"

#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/base/error.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/received.h"

namespace steadystate {
namespace {

using MessageDescriptor = google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// Longer than any name; the answer repeats the request.
constexpr size_t kMaxRequestBytes = 4 << 10;

const DescriptorPool& Pool() { return *DescriptorPool::generated_pool(); }

void SetError(grpc::StatusCode code, const std::string& message,
              ServerReflectionResponse& response) {
  auto& error = *response.mutable_error_response();
  error.set_error_code(code);
  error.set_error_message(message);
}

// INVALID_ARGUMENT: it is no such request, or too long.
absl::Status Read(grpc::ByteBuffer& received, ServerReflectionRequest& to) {
  if (received.Length() > kMaxRequestBytes) {
    return MakeError(
        ErrorReason::kInvalidArgument,
        absl::StrCat("the request has ", received.Length(), " bytes; at most ",
                     kMaxRequestBytes, " are allowed: send a shorter name"),
        {{"field", "the request"},
         {"value", absl::StrCat(received.Length(), " bytes")},
         {"bounds", absl::StrCat("at most ", kMaxRequestBytes)}});
  }
  return ReadRequest(received, to);
}

// One stream. gRPC makes one call of it at a time: a read is begun when the
// last answer has been written.
class ReflectionReactor final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer,
                                     ServerReflectionResponse> {
 public:
  // Messages are noted in `taken` as of `client`. `services` are listed.
  ReflectionReactor(const std::vector<std::string>& services, TakenBytes& taken,
                    ClientId client)
      : services_(services), taken_(taken), client_(client) {
    StartRead(&received_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    taken_.Add(client_, received_.Length());
    const absl::Status status = Read(received_, request_);
    if (!status.ok()) return Finish(ToGrpcStatus(ToPublicError(status)));
    Answer();
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      StartRead(&received_);
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

 private:
  void Answer();
  void AnswerFile(const FileDescriptor* file, const std::string& name);
  void AnswerExtensionNumbers(const std::string& type);
  void AddFile(const FileDescriptor& file);

  const std::vector<std::string>& services_;
  TakenBytes& taken_;
  const ClientId client_;
  grpc::ByteBuffer received_;
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
  // Those that the client has; at most all that are linked in.
  absl::flat_hash_set<const FileDescriptor*> sent_;
};

void ReflectionReactor::Answer() {
  response_.Clear();
  response_.set_valid_host(request_.host());
  *response_.mutable_original_request() = request_;
  switch (request_.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      return AnswerFile(Pool().FindFileByName(request_.file_by_filename()),
                        request_.file_by_filename());
    case ServerReflectionRequest::kFileContainingSymbol:
      return AnswerFile(
          Pool().FindFileContainingSymbol(request_.file_containing_symbol()),
          request_.file_containing_symbol());
    case ServerReflectionRequest::kFileContainingExtension: {
      const auto& asked = request_.file_containing_extension();
      const MessageDescriptor* type =
          Pool().FindMessageTypeByName(asked.containing_type());
      const FieldDescriptor* field =
          type == nullptr
              ? nullptr
              : Pool().FindExtensionByNumber(type, asked.extension_number());
      return AnswerFile(field == nullptr ? nullptr : field->file(),
                        absl::StrCat("extension ", asked.extension_number(),
                                     " of ", asked.containing_type()));
    }
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      return AnswerExtensionNumbers(request_.all_extension_numbers_of_type());
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_) {
        response_.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      return;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return SetError(grpc::StatusCode::INVALID_ARGUMENT,
                      "the request asks for nothing that is known here",
                      response_);
  }
}

void ReflectionReactor::AnswerFile(const FileDescriptor* file,
                                   const std::string& name) {
  if (file == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND,
                    absl::StrCat("there is no ", name), response_);
  }
  response_.mutable_file_descriptor_response();
  AddFile(*file);
}

void ReflectionReactor::AnswerExtensionNumbers(const std::string& type) {
  const MessageDescriptor* message = Pool().FindMessageTypeByName(type);
  if (message == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND,
                    absl::StrCat("there is no message ", type), response_);
  }
  auto& numbers = *response_.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  Pool().FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

// Imports are few levels deep.
void ReflectionReactor::AddFile(const FileDescriptor& file) {
  if (!sent_.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  proto.SerializeToString(response_.mutable_file_descriptor_response()
                              ->add_file_descriptor_proto());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i));
  }
}

}  // namespace

ReflectionService::ReflectionService(ServiceContext& services,
                                     std::vector<std::string> names)
    : TypedService(services), names_(std::move(names)) {
  Add("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      &ReflectionService::ServerReflectionInfo);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, ServerReflectionResponse>*
ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* context) {
  return new ReflectionReactor(names_, services_.taken, ConnectionOf(*context));
}

}  // namespace steadystate
