// Goal: what surrounds the services holds: addresses, health, reflection,
// limits of messages, the end. Method: real servers on free ports.
#include "server/rpc/server.h"

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/rpc/health_service.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/http2.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::server_test {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

absl::Status StartOn(OpenServer& other, const std::string& listen) {
  Metrics metrics("x");
  ServerOptions options;
  options.listen = listen;
  return Server::Start(options, other.engine(), metrics).status();
}

TEST(ServerTest, TakenPortIsAnErrorThatNamesIt) {
  OpenServer server;
  const std::string address =
      absl::StrCat("127.0.0.1:", server.server().port());
  const absl::Status status = StartOn(server, address);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), address)) << status;
}

TEST(ServerTest, MalformedAddressesAreRefused) {
  OpenServer server;
  for (const char* listen : {"", "50051", ":50051", "localhost:", "a:b",
                             "127.0.0.1:65536", "127.0.0.1:-1"}) {
    EXPECT_EQ(StartOn(server, listen).code(),
              absl::StatusCode::kInvalidArgument)
        << listen;
  }
}

TEST(ServerTest, LimitsOutOfRangeAreRefused) {
  ServerOptions options;
  EXPECT_TRUE(ValidateServerOptions(options).ok());
  options.max_message_bytes = 1000;
  EXPECT_FALSE(ValidateServerOptions(options).ok());
  options.max_message_bytes = size_t{2} << 30;
  EXPECT_FALSE(ValidateServerOptions(options).ok());
  options.max_message_bytes = size_t{1} << 20;
  options.max_steps_per_message = 0;
  EXPECT_FALSE(ValidateServerOptions(options).ok());
  options.max_steps_per_message = (1 << 20) + 1;
  EXPECT_FALSE(ValidateServerOptions(options).ok());
  options.max_steps_per_message = 1 << 20;
  options.max_concurrent_streams = 0;
  EXPECT_FALSE(ValidateServerOptions(options).ok());
}

HealthCheckResponse::ServingStatus HealthOf(OpenServer& server,
                                            const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(server.channel());
  Context context;
  HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return HealthCheckResponse::SERVICE_UNKNOWN;
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

TEST(ServerTest, HealthIsToldPerService) {
  OpenServer server;
  for (const char* service :
       {"", "steadystate.v1.SessionService", "steadystate.v1.GenerationService",
        "steadystate.v1.ModelService", "inference.GRPCInferenceService"}) {
    EXPECT_EQ(HealthOf(server, service), HealthCheckResponse::SERVING)
        << service;
  }
  EXPECT_EQ(HealthOf(server, "other"), HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(server.MetricValue("steadystate_ready"), 1);
}

TEST(ServerTest, HealthTurnsBeforeServiceEnds) {
  OpenServer server;
  const auto stub = grpc::health::v1::Health::NewStub(server.channel());
  Context context;
  HealthCheckRequest request;
  request.set_service("steadystate.v1.GenerationService");
  const auto watch = stub->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  std::thread shutdown([&server] {
    EXPECT_TRUE(server.server().Shutdown(absl::Seconds(1)).ok());
  });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  shutdown.join();
  EXPECT_EQ(server.MetricValue("steadystate_ready"), 0);
}

TEST(ServerTest, AComputeThreadThatDoesNotMoveIsNotServing) {
  ManualClock clock;
  OpenServerOptions options;
  options.clock = &clock;
  OpenServer server(options);
  const auto stub = grpc::health::v1::Health::NewStub(server.channel());
  Context context;
  const auto watch = stub->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  for (int round = 0; round < 2; ++round) {
    EngineHold hold(server);
    clock.Advance(kMaxHeartbeatAge + absl::Milliseconds(1));
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(HealthOf(server, "steadystate.v1.GenerationService"),
              HealthCheckResponse::NOT_SERVING);
    server.WaitForMetric("steadystate_ready", 0);
    EXPECT_GT(server.MetricValue("steadystate_heartbeat_age_seconds"), 5);
    hold.Release();
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
    server.WaitForMetric("steadystate_ready", 1);
    server.WaitForMetric("steadystate_heartbeat_age_seconds", 0);
  }
  // Once it drains it does not serve again, however alive it is.
  EXPECT_TRUE(server.server().Shutdown(absl::Seconds(1)).ok());
  EXPECT_EQ(server.MetricValue("steadystate_ready"), 0);
}

// The raw answer of the reflection service to "list services".
std::string ListServices(OpenServer& server, grpc::Status* status) {
  grpc::GenericStub stub(server.channel());
  Context context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&context);
  queue.Next(&tag, &ok);
  // Field 7, list_services, a string that is not looked at.
  grpc::Slice slice(std::string("\x3A\x01*"));
  const grpc::ByteBuffer request(&slice, 1);
  call->Write(request, &context);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer response;
  call->Read(&response, &context);
  queue.Next(&tag, &ok);
  std::string text;
  std::vector<grpc::Slice> slices;
  if (ok && response.Dump(&slices).ok()) {
    for (const grpc::Slice& part : slices) {
      text.append(reinterpret_cast<const char*>(part.begin()), part.size());
    }
  }
  call->WritesDone(&context);
  queue.Next(&tag, &ok);
  call->Finish(status, &context);
  queue.Next(&tag, &ok);
  return text;
}

TEST(ServerTest, ReflectionListsTheServices) {
  OpenServer server;
  grpc::Status status;
  const std::string services = ListServices(server, &status);
  for (const char* service :
       {"steadystate.v1.SessionService", "steadystate.v1.GenerationService",
        "steadystate.v1.ModelService", "inference.GRPCInferenceService",
        "grpc.health.v1.Health"}) {
    EXPECT_TRUE(absl::StrContains(services, service)) << service;
  }
}

TEST(ServerTest, ReflectionCanBeLeftOut) {
  OpenServerOptions options;
  options.server.reflection = false;
  OpenServer server(options);
  grpc::Status status;
  EXPECT_EQ(ListServices(server, &status), "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ServerTest, CompressedRequestsAreRefusedWithoutUnpacking) {
  OpenServer server;
  Context context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::TokenizeRequest request;
  request.set_text(std::string(1 << 20, 'x'));
  v1::TokenizeResponse response;
  EXPECT_EQ(server.models().Tokenize(&context, request, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(ServerTest, OverlongRequestsAreRefused) {
  OpenServerOptions options;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  v1::StepRequest step = StepOf(session, std::vector<int32_t>(70'000, 1));
  Context context;
  v1::StepResponse response;
  EXPECT_EQ(server.generation().Step(&context, step, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  // On a stream it ends the stream.
  Context stream_context;
  const auto stream = server.generation().StreamStep(&stream_context);
  v1::StreamStepRequest request;
  *request.mutable_step() = step;
  stream->Write(request);
  v1::StreamStepResponse unread;
  EXPECT_FALSE(stream->Read(&unread));
  EXPECT_EQ(stream->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(server.PositionOf(session), 0u);
}

TEST(ServerTest, RequestsThatAreCutShortAreRefused) {
  OpenServer server;
  v1::ListSessionsRequest request;
  request.set_page_size(1);
  std::string message = GrpcMessage(request.SerializeAsString());
  message.pop_back();
  TcpClient client(server.server().port());
  ASSERT_TRUE(client.Send(absl::StrCat(
      Http2Preface(),
      Frame(Http2Frame::kHeaders, kEndHeaders, 1,
            RequestHeaders("/steadystate.v1.SessionService/ListSessions")),
      Frame(Http2Frame::kData, kEndStream, 1, message))));
  std::string answer;
  while (!absl::StrContains(answer, "grpc-status")) {
    const std::string more = client.Receive();
    ASSERT_NE(more, "");
    answer += more;
  }
  EXPECT_TRUE(absl::StrContains(answer, "the call brought no request"));
}

TEST(ServerTest, ShutdownCutsOffWhatDoesNotEnd) {
  OpenServer server;
  v1::GenerateRequest request;
  request.set_session(server.CreateSession());
  request.set_text("a");
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  std::thread reader([&] {
    while (stream->Read(&response)) {
    }
    EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kDraining));
  });
  const absl::Time start = absl::Now();
  EXPECT_TRUE(server.server().Shutdown(absl::Milliseconds(50)).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(4));
  reader.join();
}

// Waits until the position of a session that has been stepped stays the same
// for half a second: on a busy machine it moves seldom.
void WaitUntilStuck(OpenServer& server, const std::string& session) {
  uint64_t position = 0;
  absl::Time since = absl::Now();
  while (position <= 1 || absl::Now() - since < absl::Milliseconds(500)) {
    const uint64_t before = std::exchange(position, server.PositionOf(session));
    if (position != before) since = absl::Now();
  }
}

TEST(ServerTest, ShutdownDoesNotWaitForAClientThatDoesNotRead) {
  OpenServer server;
  v1::GenerateRequest request;
  request.set_session(server.CreateSession());
  request.set_text("a");
  request.set_logprobs(256);
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  WaitUntilStuck(server, request.session());
  const absl::Time start = absl::Now();
  EXPECT_TRUE(server.server().Shutdown(absl::Milliseconds(50)).ok());
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
  }
  EXPECT_FALSE(stream->Finish().ok());
}

// Connections with a Generate each that never read their sockets, although
// HTTP/2's windows are open: so the server waits for TCP.
class DeafClients {
 public:
  DeafClients(OpenServer& server, int count) {
    for (int i = 0; i < count; ++i) {
      clients_.push_back(std::make_unique<TcpClient>());
      sessions_.push_back(server.CreateSession());
      Start(*clients_.back(), server.server().port(), sessions_.back());
    }
    for (const std::string& session : sessions_) {
      WaitUntilStuck(server, session);
    }
  }

 private:
  static void Start(TcpClient& client, int port, const std::string& session) {
    const int buffer = 4096;
    setsockopt(client.fd(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    ASSERT_TRUE(client.Connect(port));
    v1::GenerateRequest request;
    request.set_session(session);
    request.set_text("a");
    request.set_ignore_eos(true);
    request.set_logprobs(256);
    ASSERT_TRUE(client.Send(absl::StrCat(
        Http2Preface(),
        // The windows of streams, and that of the connection.
        Frame(Http2Frame::kSettings, 0, 0,
              absl::StrCat(BigEndian(4, 2), BigEndian(INT32_MAX, 4))),
        Frame(Http2Frame::kWindowUpdate, 0, 0, BigEndian(1 << 30, 4)),
        Frame(Http2Frame::kHeaders, kEndHeaders, 1,
              RequestHeaders("/steadystate.v1.GenerationService/Generate")),
        Frame(Http2Frame::kData, kEndStream, 1,
              GrpcMessage(request.SerializeAsString())))));
  }

  std::vector<std::unique_ptr<TcpClient>> clients_;
  std::vector<std::string> sessions_;
};

TEST(ServerTest, ShutdownDoesNotWaitForSocketsThatNobodyReads) {
  for (const absl::Duration drain :
       {absl::ZeroDuration(), absl::Milliseconds(50)}) {
    OpenServer server;
    const DeafClients clients(server, 4);
    const absl::Time start = absl::Now();
    EXPECT_TRUE(server.server().Shutdown(drain).ok());
    EXPECT_LT(absl::Now() - start, absl::Seconds(5));
  }
}

TEST(ServerTest, EndsWithoutShutdownAlthoughNobodyReadsSockets) {
  auto server = std::make_unique<OpenServer>();
  const DeafClients clients(*server, 4);
  const absl::Time start = absl::Now();
  server.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

}  // namespace
}  // namespace steadystate::server_test
