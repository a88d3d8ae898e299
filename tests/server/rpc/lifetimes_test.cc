// Goal: a call's object is there for as long as any thread uses it, however
// long a thread is held up between two of its steps. Method: real calls of all
// kinds, which end in every way they can, while a hook parks the server's
// threads wherever others may overtake them. AddressSanitizer sees what is used
// after it has gone; every build sees a crash or a call that never ends.
// STEADYSTATE_PARKED_ROUNDS sets the number of rounds, 1000 if it is absent.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/environment_number.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::lifetimes_test {
namespace {

size_t Rounds() {
  return NumberFromEnvironment("STEADYSTATE_PARKED_ROUNDS", 1000);
}

// A client that does one call after the other, chosen and ended by chance. All
// that is expected of a call is that it ends.
class Client {
 public:
  Client(OpenServer& server, uint32_t seed)
      : server_(server), random_(seed), sessions_(server.CreateSessions(3)) {}

  void Round() {
    switch (Random(12)) {
      case 0:
        return DoStep();
      case 1:
        return DoGenerate();
      case 2:
        return DoScore();
      case 3:
        return DoTokenize();
      case 4:
        return DoLargeRequest();
      case 5:
        return DoWatch();
      case 6:
        return DoFork();
      case 7:
        return DoWatchSessions();
      default:
        return DoStreamStep();
    }
  }

 private:
  uint32_t Random(size_t below) {
    return static_cast<uint32_t>(random_() % below);
  }

  const std::string& Session() { return sessions_[Random(sessions_.size())]; }

  // At once, later, or not at all.
  void CancelPerhaps(Context& context) {
    const uint32_t turns = Random(16);
    if (turns >= 8) return;
    for (uint32_t i = 0; i < turns; ++i) std::this_thread::yield();
    context.TryCancel();
  }

  // Reads to the end, or until it would rather cancel.
  template <typename Stream, typename Response>
  void ReadToTheEnd(Context& context, Stream& stream, Response response) {
    CancelPerhaps(context);
    while (stream.Read(&response)) {
      if (Random(8) == 0) context.TryCancel();
    }
    stream.Finish();
  }

  void DoStreamStep() {
    Context context;
    const auto stream = server_.generation().StreamStep(&context);
    const uint32_t steps = Random(4);
    for (uint32_t i = 0; i < steps; ++i) {
      v1::StreamStepRequest request;
      *request.mutable_step() =
          StepOf(Session(), SomeTokens(Random(3), Random(100)));
      stream->Write(request);
    }
    if (Random(4) != 0) {
      stream->WritesDone();
    } else {
      context.TryCancel();
    }
    ReadToTheEnd(context, *stream, v1::StreamStepResponse());
  }

  void DoStep() {
    Context context;
    std::thread canceller([&] { CancelPerhaps(context); });
    v1::StepResponse response;
    server_.generation().Step(&context, StepOf(Session(), {1, 2}), &response);
    canceller.join();
  }

  // Without room for all that are asked for in the end.
  void DoFork() {
    Context context;
    std::thread canceller([&] { CancelPerhaps(context); });
    v1::ForkSessionRequest request;
    request.set_name(Session());
    request.set_count(1 + Random(3));
    request.mutable_session()->mutable_ttl()->set_seconds(1);
    v1::ForkSessionResponse response;
    server_.sessions().ForkSession(&context, request, &response);
    canceller.join();
  }

  void DoGenerate() {
    Context context;
    v1::GenerateRequest request;
    request.set_session(Session());
    // Every other one long enough for the thread for that.
    request.set_text(std::string(Random(2) == 0 ? 3 : 5000, 'x'));
    request.set_max_tokens(Random(8));
    ReadToTheEnd(context, *server_.generation().Generate(&context, request),
                 v1::GenerateResponse());
  }

  void DoScore() {
    Context context;
    v1::ScoreRequest request;
    request.mutable_tokens()->add_ids(Random(2) == 0 ? 1 : -1);
    ReadToTheEnd(context, *server_.generation().Score(&context, request),
                 v1::ScoreResponse());
  }

  void DoTokenize() {
    Context context;
    std::thread canceller([&] { CancelPerhaps(context); });
    v1::TokenizeRequest request;
    request.set_text(std::string(5000, 'x'));
    v1::TokenizeResponse response;
    server_.models().Tokenize(&context, request, &response);
    canceller.join();
  }

  // Which a thread for that reads.
  void DoLargeRequest() {
    Context context;
    std::thread canceller([&] { CancelPerhaps(context); });
    v1::CreateSessionRequest request;
    (*request.mutable_session()->mutable_labels())["label"] =
        std::string(100'000, 'x');
    v1::Session response;
    server_.sessions().CreateSession(&context, request, &response);
    canceller.join();
  }

  // Which nobody but the client or the server's end ends.
  void DoWatch() {
    Context context;
    const auto health = grpc::health::v1::Health::NewStub(server_.channel());
    grpc::health::v1::HealthCheckRequest request;
    if (Random(2) == 0) request.set_service("other");
    const auto stream = health->Watch(&context, request);
    std::thread canceller([&] {
      CancelPerhaps(context);
      context.TryCancel();
    });
    grpc::health::v1::HealthCheckResponse response;
    while (stream->Read(&response)) {
    }
    stream->Finish();
    canceller.join();
  }

  void CreateSession() {
    Context context;
    v1::Session response;
    server_.sessions().CreateSession(&context, {}, &response);
  }

  // From now on, or from where the last one ended.
  void DoWatchSessions() {
    Context context;
    v1::WatchSessionsRequest request;
    if (Random(2) == 0) request.set_cursor(cursor_);
    const auto stream = server_.sessions().WatchSessions(&context, request);
    std::thread canceller([&] {
      CancelPerhaps(context);
      if (Random(4) == 0) CreateSession();
      context.TryCancel();
    });
    v1::WatchSessionsResponse response;
    while (stream->Read(&response)) cursor_ = response.cursor();
    stream->Finish();
    canceller.join();
  }

  OpenServer& server_;
  std::mt19937 random_;
  std::string cursor_;
  const std::vector<std::string> sessions_;
};

TEST(LifetimesTest, NoObjectGoesUnderAThreadThatIsParked) {
  constexpr size_t kClients = 4;
  const size_t rounds = Rounds();
  OpenServer server;
  std::atomic<size_t> begun = 0;
  {
    const Parking parking;
    std::vector<std::thread> clients;
    for (uint32_t i = 0; i < kClients; ++i) {
      clients.emplace_back([&, i] {
        Client client(server, i);
        while (begun.fetch_add(1) < rounds) client.Round();
      });
    }
    for (std::thread& client : clients) client.join();
    server.WaitForMetric("steadystate_grpc_streams", 0);
  }
  EXPECT_GT(Parking::count(), rounds);
  server.Step(StepOf(server.CreateSession(), {1}));
}

TEST(LifetimesTest, AServerThatShutsDownLeavesNoThreadBehind) {
  const size_t servers = Rounds() / 100;
  const Parking parking;
  for (uint32_t i = 0; i < servers; ++i) {
    OpenServer server;
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::thread> threads;
    for (uint32_t k = 0; k < 4; ++k) {
      clients.push_back(std::make_unique<Client>(server, 4 * i + k));
    }
    for (const std::unique_ptr<Client>& client : clients) {
      threads.emplace_back([&client] {
        for (int round = 0; round < 5; ++round) client->Round();
      });
    }
    server.server().AnnounceShutdown(absl::ZeroDuration());
    EXPECT_TRUE(server.server().Shutdown(absl::Seconds(60)).ok());
    for (std::thread& thread : threads) thread.join();
  }
}

// A call that ends after a while, with its own thread and context.
class OwnCall {
 public:
  template <typename Work>
  explicit OwnCall(Work work) : thread_([this, work] { work(context_); }) {}
  ~OwnCall() { thread_.join(); }
  void Cancel() { context_.TryCancel(); }

 private:
  Context context_;
  std::thread thread_;
};

// Answers of half a mebibyte and more, of which few have room at a time.
class CallsThatWait {
 public:
  explicit CallsThatWait(OpenServer& server)
      : server_(server), sessions_(server.CreateSessions(kCalls)) {}

  void Round(uint32_t seed) {
    std::vector<std::unique_ptr<OwnCall>> calls;
    {
      EngineHold hold(server_);
      for (size_t i = 0; i < kCalls; ++i) calls.push_back(Begin(i));
      server_.WaitForSome("steadystate_outbound_waiting");
      const Parking parking;
      std::minstd_rand random(seed);
      for (const auto& call : calls) {
        if (random() % 3 == 0) call->Cancel();
      }
      hold.Release();
      for (const auto& call : calls) {
        if (random() % 3 == 0) call->Cancel();
      }
      calls.clear();
    }
    server_.WaitForMetric("steadystate_outbound_bytes", 0);
  }

 private:
  static constexpr size_t kCalls = 12;

  // Every third one a stream.
  std::unique_ptr<OwnCall> Begin(size_t i) {
    const v1::StepRequest step = LogitsStepOf(sessions_[i], {1, 2});
    if (i % 3 != 0) {
      return std::make_unique<OwnCall>([this, step](Context& context) {
        v1::StepResponse response;
        server_.generation().Step(&context, step, &response);
      });
    }
    return std::make_unique<OwnCall>([this, step](Context& context) {
      const auto stream = server_.generation().StreamStep(&context);
      v1::StreamStepRequest request;
      *request.mutable_step() = step;
      stream->Write(request);
      stream->WritesDone();
      v1::StreamStepResponse response;
      while (stream->Read(&response)) {
      }
      stream->Finish();
    });
  }

  OpenServer& server_;
  const std::vector<std::string> sessions_;
};

TEST(LifetimesTest, CallsThatWaitForRoomEndInAnyOrder) {
  OpenServerOptions options;
  options.model.vocab_size = 1 << 16;
  options.server.max_outbound_bytes = 16 << 20;
  OpenServer server(options);
  CallsThatWait calls(server);
  for (uint32_t i = 0; i < Rounds() / 20; ++i) calls.Round(i + 1);
}

}  // namespace
}  // namespace steadystate::lifetimes_test
