// Goal: the services describe themselves to any number of streams, none of
// which takes anything from others. Method: a client of the standard service.
#include "server/rpc/reflection_service.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::reflection_service_test {
namespace {

using grpc::reflection::v1alpha::ServerReflection;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// One stream.
class Asker {
 public:
  explicit Asker(OpenServer& server)
      : stub_(ServerReflection::NewStub(server.channel())),
        stream_(stub_->ServerReflectionInfo(&context_)) {}

  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream_->Write(request));
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  grpc::Status End() {
    stream_->WritesDone();
    return stream_->Finish();
  }
  auto& stream() { return *stream_; }

 private:
  Context context_;
  const std::unique_ptr<ServerReflection::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<ServerReflectionRequest,
                                                 ServerReflectionResponse>>
      stream_;
};

ServerReflectionRequest ForSymbol(const std::string& symbol) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(symbol);
  return request;
}

std::set<std::string> FilesOf(const ServerReflectionResponse& response) {
  std::set<std::string> names;
  for (const std::string& bytes :
       response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.insert(file.name());
  }
  return names;
}

// gRPC's own service answered 15 at a time: each idle stream kept a thread.
TEST(ReflectionServiceTest, AnswersAnyNumberOfOpenStreams) {
  OpenServer server;
  ServerReflectionRequest request;
  request.set_list_services("*");
  std::vector<std::unique_ptr<Asker>> askers;
  for (int i = 0; i < 64; ++i) {
    askers.push_back(std::make_unique<Asker>(server));
    const ServerReflectionResponse response = askers.back()->Ask(request);
    EXPECT_EQ(response.list_services_response().service_size(), 6);
  }
  for (const auto& asker : askers) EXPECT_THAT(asker->End(), IsOk());
}

TEST(ReflectionServiceTest, SendsAFileWithItsImportsOnce) {
  OpenServer server;
  Asker asker(server);
  const std::string symbol = "steadystate.v1.GenerationService.Step";
  const std::set<std::string> files = FilesOf(asker.Ask(ForSymbol(symbol)));
  EXPECT_THAT(files, testing::Contains("steadystate/v1/generation.proto"));
  EXPECT_GT(files.size(), 1u);
  EXPECT_THAT(FilesOf(asker.Ask(
                  ForSymbol("inference.GRPCInferenceService.ModelInfer"))),
              testing::ElementsAre("inference/grpc_service.proto",
                                   "inference/model_config.proto"));
  EXPECT_TRUE(FilesOf(asker.Ask(ForSymbol(symbol))).empty());
  ServerReflectionRequest by_name;
  by_name.set_file_by_filename("grpc/health/v1/health.proto");
  EXPECT_EQ(FilesOf(asker.Ask(by_name)),
            std::set<std::string>{"grpc/health/v1/health.proto"});
}

TEST(ReflectionServiceTest, SaysWhatIsNotThere) {
  OpenServer server;
  Asker asker(server);
  std::vector<ServerReflectionRequest> requests(5);
  requests[0].set_file_containing_symbol("no.such.Thing");
  requests[1].set_file_by_filename("no/such.proto");
  requests[2].mutable_file_containing_extension()->set_containing_type(
      "steadystate.v1.StepRequest");
  requests[3].set_all_extension_numbers_of_type("no.such.Thing");
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(asker.Ask(requests[static_cast<size_t>(i)])
                  .error_response()
                  .error_code(),
              grpc::StatusCode::NOT_FOUND)
        << i;
  }
  EXPECT_EQ(asker.Ask(requests[4]).error_response().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  ServerReflectionRequest numbers;
  numbers.set_all_extension_numbers_of_type("steadystate.v1.StepRequest");
  EXPECT_EQ(
      asker.Ask(numbers).all_extension_numbers_response().base_type_name(),
      "steadystate.v1.StepRequest");
  EXPECT_THAT(asker.End(), IsOk());
}

TEST(ReflectionServiceTest, RefusesOverlongRequests) {
  OpenServer server;
  Asker asker(server);
  ServerReflectionResponse response;
  asker.stream().Write(ForSymbol(std::string(5000, 'x')));
  EXPECT_FALSE(asker.stream().Read(&response));
  EXPECT_THAT(asker.stream().Finish(),
              HasReason(ErrorReason::kInvalidArgument));
}

// gRPC, which read them before, ended the stream with OK.
TEST(ReflectionServiceTest, RefusesWhatIsNoRequest) {
  OpenServer server;
  RawCall call(
      server.channel(),
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
  ASSERT_TRUE(call.Write("\xff"));
  EXPECT_EQ(call.Read(), std::nullopt);
  EXPECT_THAT(call.Finish(), HasReason(ErrorReason::kInvalidArgument));
}

TEST(ReflectionServiceTest, OpenStreamsDoNotHoldUpTheEnd) {
  OpenServer server;
  ServerReflectionRequest request;
  request.set_list_services("*");
  Asker asker(server);
  asker.Ask(request);
  EXPECT_TRUE(server.server().Shutdown(absl::Milliseconds(50)).ok());
  EXPECT_FALSE(asker.End().ok());
}

}  // namespace
}  // namespace steadystate::reflection_service_test
