// Goal: health is told as grpc.health.v1 says, to whoever asks or watches, and
// nobody waits for what its clients send or do not read. Method: real servers
// and clients; a server of health alone, whose status the test sets; the
// server's threads are parked where others may overtake them.
#include "server/rpc/health_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/raw_call.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::health_service_test {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kKnown[] = "known.Service";
constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

// A server of health alone, with what it needs of another one.
class HealthServer {
 public:
  explicit HealthServer(OpenServer& other)
      : services_{.engine = other.engine(),
                  .metrics = metrics_,
                  .converter = Converter(other.model(),
                                         other.engine().options(), 4 << 20),
                  .max_message_bytes = 4 << 20,
                  .max_steps_per_message = 1,
                  .taken = {},
                  .inbound = InboundBudget(4 << 20),
                  .outbound = {FairShare(4 << 20, 0, 1), {}, metrics_},
                  .open_streams = {},
                  .watchers = {events_, metrics_},
                  .texts = TurnThreads(kTextBounds),
                  .reading = TurnThreads(ReadingBounds(4 << 20, 4 << 20))} {
    health_.SetAccepting(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    stub_ = Health::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  HealthService& health() { return health_; }
  Health::Stub& stub() { return *stub_; }
  void Shutdown() {
    health_.EndWatches();
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::seconds(60));
  }

 private:
  Metrics metrics_{"m"};
  SessionEvents events_;
  ServiceContext services_;
  HealthService health_{services_, {kKnown}};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Health::Stub> stub_;
};

HealthCheckRequest For(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

// One Watch.
class Watching {
 public:
  Watching(Health::Stub& stub, const std::string& service)
      : stream_(stub.Watch(&context_, For(service))) {}

  // UNKNOWN when the stream has ended.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return stream_->Read(&response) ? response.status()
                                    : HealthCheckResponse::UNKNOWN;
  }
  void Cancel() { context_.TryCancel(); }
  // How it ended.
  grpc::Status End() {
    EXPECT_EQ(Next(), HealthCheckResponse::UNKNOWN);
    return stream_->Finish();
  }

 private:
  Context context_;
  const std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
};

// A request with one field that nobody knows.
std::string LargeRequest(size_t bytes) {
  HealthCheckRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      7, std::string(bytes, 'x'));
  return request.SerializeAsString();
}

grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel,
                 const std::string& path, const std::string& request,
                 std::string* answer) {
  RawCall call(channel, path);
  call.Write(request);
  call.WritesDone();
  *answer = call.Read().value_or("");
  return call.Finish();
}

TEST(HealthServiceTest, CheckTellsWhatIsKnown) {
  OpenServer other;
  HealthServer server(other);
  const auto check = [&server](const std::string& service) {
    Context context;
    HealthCheckResponse response;
    EXPECT_THAT(server.stub().Check(&context, For(service), &response), IsOk());
    return response.status();
  };
  for (const char* service : {"", kKnown}) {
    EXPECT_EQ(check(service), HealthCheckResponse::SERVING);
    server.health().SetAlive(false);
    EXPECT_EQ(check(service), HealthCheckResponse::NOT_SERVING);
    server.health().SetAlive(true);
    EXPECT_EQ(check(service), HealthCheckResponse::SERVING);
  }
  server.health().SetAccepting(false);
  server.health().SetAlive(true);
  EXPECT_EQ(check(""), HealthCheckResponse::NOT_SERVING);
}

TEST(HealthServiceTest, CheckOfAnUnknownServiceIsNotFound) {
  OpenServer server;
  for (const std::string& service :
       {std::string("other"), std::string(1000, 'x')}) {
    Context context;
    HealthCheckResponse response;
    const grpc::Status status = Health::NewStub(server.channel())
                                    ->Check(&context, For(service), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(status.error_details(), "");
  }
}

TEST(HealthServiceTest, RefusesWhatIsNoRequest) {
  OpenServer server;
  for (const char* path : {kCheck, kWatch}) {
    for (const char* bytes : {"\xff", "\x0a\x7f"}) {
      std::string answer;
      const grpc::Status status = Ask(server.channel(), path, bytes, &answer);
      EXPECT_THAT(status, HasReason(ErrorReason::kInvalidArgument));
      EXPECT_EQ(ToWireError(status).metadata["bounds"],
                "grpc.health.v1.HealthCheckRequest");
    }
    RawCall none(server.channel(), path);
    none.WritesDone();
    EXPECT_EQ(none.Read(), std::nullopt);
    EXPECT_THAT(none.Finish(), HasReason(ErrorReason::kInvalidArgument));
  }
  server.Step(StepOf(server.CreateSession(), {1}));
}

TEST(HealthServiceTest, IsNotCountedAmongTheRequests) {
  OpenServer server;
  std::string answer;
  EXPECT_THAT(Ask(server.channel(), kCheck, "", &answer), IsOk());
  EXPECT_EQ(answer, "\x08\x01");
  EXPECT_EQ(server.MetricValue("steadystate_request_duration_seconds_count{"
                               "code=\"OK\",method=\"other\"}"),
            0);
}

TEST(HealthServiceTest, LargeRequestsAreReadWhereNobodyElseWaitsForIt) {
  constexpr size_t kCalls = 20;  // more than gRPC has threads
  OpenServer server;
  const std::string session = server.CreateSession();
  const std::string request = LargeRequest((4 << 20) - 100);
  ThreadHold hold("ReadRequest");
  std::atomic<size_t> done = 0;
  std::vector<std::thread> calls;
  for (size_t i = 0; i < kCalls; ++i) {
    calls.emplace_back([&] {
      std::string answer;
      EXPECT_THAT(Ask(server.channel(), kCheck, request, &answer), IsOk());
      EXPECT_EQ(answer, "\x08\x01");
      ++done;
    });
  }
  hold.WaitUntilHeld();
  std::string answer;
  for (int i = 0; i < 10; ++i) {
    server.Step(StepOf(session, {1}));
    EXPECT_THAT(Ask(server.NewChannel(), kCheck, "", &answer), IsOk());
  }
  EXPECT_EQ(done, 0u);
  hold.Release();
  for (std::thread& call : calls) call.join();
}

TEST(HealthServiceTest, WatchKeepsNoMoreThanAName) {
  OpenServer server;
  std::string answer;
  for (const std::string& request :
       {LargeRequest(4 << 10), LargeRequest(1 << 20),
        For(std::string(5000, 'x')).SerializeAsString()}) {
    EXPECT_THAT(Ask(server.channel(), kWatch, request, &answer),
                IsAboutField("the request"));
    EXPECT_EQ(answer, "");
  }
  Watching watch(*Health::NewStub(server.channel()), std::string(1000, 'x'));
  EXPECT_EQ(watch.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST(HealthServiceTest, WatchTellsChangesInOrder) {
  OpenServer other;
  HealthServer server(other);
  Watching all(server.stub(), "");
  Watching known(server.stub(), kKnown);
  Watching unknown(server.stub(), "other");
  EXPECT_EQ(unknown.Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  bool serving = true;
  for (int i = 0; i < 100; ++i) {
    for (Watching* watch : {&all, &known}) {
      EXPECT_EQ(watch->Next(), serving ? HealthCheckResponse::SERVING
                                       : HealthCheckResponse::NOT_SERVING);
    }
    serving = !serving;
    server.health().SetAlive(serving);
    server.health().SetAccepting(true);  // which is no change
  }
  all.Next();
  known.Next();
  server.health().EndWatches();
  for (Watching* watch : {&all, &known, &unknown}) {
    EXPECT_THAT(watch->End(), HasReason(ErrorReason::kDraining));
  }
}

TEST(HealthServiceTest, WhoReadsSlowlyGetsTheLatest) {
  OpenServer other;
  HealthServer server(other);
  for (const bool last : {false, true}) {
    ThreadHold hold("Watcher::OnWriteDone");
    Watching watch(server.stub(), kKnown);
    EXPECT_EQ(watch.Next(), HealthCheckResponse::SERVING);
    hold.WaitUntilHeld();
    for (int i = 0; i < 10; ++i) {
      server.health().SetAlive(i % 2 != 0);
    }
    server.health().SetAlive(last);
    hold.Release();
    if (!last) {
      EXPECT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
      server.health().SetAlive(true);
      EXPECT_EQ(watch.Next(), HealthCheckResponse::SERVING);
    }
    // Nothing else was said.
    server.health().SetAlive(false);
    EXPECT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
    server.health().SetAlive(true);
    EXPECT_EQ(watch.Next(), HealthCheckResponse::SERVING);
  }
}

TEST(HealthServiceTest, AWatchThatComesLateHearsTheStatusAndTheEnd) {
  OpenServer other;
  HealthServer server(other);
  server.health().SetAccepting(false);
  server.health().EndWatches();
  Watching watch(server.stub(), kKnown);
  EXPECT_EQ(watch.Next(), HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(watch.End(), HasReason(ErrorReason::kDraining));
}

// What gRPC would have to cancel ends with a status of its own.
TEST(HealthServiceTest, OpenWatchesDoNotHoldUpTheEnd) {
  OpenServer server;
  const auto stub = Health::NewStub(server.channel());
  std::vector<std::unique_ptr<Watching>> watches;
  for (int i = 0; i < 100; ++i) {
    watches.push_back(
        std::make_unique<Watching>(*stub, i % 2 == 0 ? "" : "other"));
    watches.back()->Next();
  }
  EXPECT_TRUE(server.server().Shutdown(absl::Milliseconds(50)).ok());
  for (size_t i = 0; i < watches.size(); ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(watches[i]->Next(), HealthCheckResponse::NOT_SERVING);
    }
    EXPECT_THAT(watches[i]->End(), HasReason(ErrorReason::kDraining));
  }
}

// Watches, and cancels or not, until the server has ended.
void WatchAgainAndAgain(HealthServer& server, uint32_t seed) {
  std::minstd_rand random(seed);
  grpc::StatusCode code = grpc::StatusCode::CANCELLED;
  while (code == grpc::StatusCode::CANCELLED) {
    const bool known = random() % 4 != 0;
    Watching watch(server.stub(), known ? kKnown : "other");
    for (auto i = random() % (known ? 3 : 2); i > 0; --i) watch.Next();
    // The one that is not cancelled is there at the end.
    if (random() % 16 != 0) watch.Cancel();
    while (watch.Next() != HealthCheckResponse::UNKNOWN) {
    }
    code = watch.End().error_code();
  }
  EXPECT_EQ(code, grpc::StatusCode::UNAVAILABLE);
}

TEST(HealthServiceTest, NoWatchGoesUnderAThreadThatIsParked) {
  OpenServer other;
  for (uint32_t round = 0; round < 10; ++round) {
    HealthServer server(other);
    const uint64_t enough = Parking::count() + 200;
    const Parking parking;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 6; ++i) {
      threads.emplace_back([&server, seed = 6 * round + i + 1] {
        WatchAgainAndAgain(server, seed);
      });
    }
    const auto change = [&server, enough] {
      for (int i = 0; Parking::count() < enough; ++i) {
        server.health().SetAlive(i % 2 == 0);
        server.health().SetAccepting(i % 3 == 0);
      }
    };
    threads.emplace_back(change);
    change();
    server.Shutdown();
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace steadystate::health_service_test
