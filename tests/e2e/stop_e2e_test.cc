// Goal: a signal ends the server when it is due: at once while it loads, and
// after the drain lag, in which it serves, when balancers have to know first.
// Clients are told, and the server ends in order whatever they do; how long
// that may take it says when it starts. Method: the real binary; a lag of an
// hour where nothing may end by itself.
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/e2e/fetch_metrics.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::stop_e2e_test {
namespace {

using grpc::health::v1::HealthCheckResponse;
using testing::AnyOf;
using testing::HasSubstr;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";

class StopE2eTest : public testing::Test {
 protected:
  // Starts the server and waits until it is ready.
  void Start(const std::vector<std::string>& flags) {
    std::vector<std::string> command = {
        kServer,       "--model",     model_.path(),
        "--listen",    "127.0.0.1:0", "--metrics_listen",
        "127.0.0.1:0", "--threads",   "1"};
    command.insert(command.end(), flags.begin(), flags.end());
    server_ = std::make_unique<Process>(command, directory_.path() + "/log");
    const std::vector<std::string> words =
        absl::StrSplit(server_->ReadLine(), absl::ByAnyChar(" ="));
    ASSERT_EQ(words.size(), 5u) << Log();
    metrics_ = words[4];
    const auto channel =
        grpc::CreateChannel(words[2], grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel);
    generation_ = v1::GenerationService::NewStub(channel);
    health_ = grpc::health::v1::Health::NewStub(channel);
  }

  // Sends SIGTERM and waits until health says so.
  void SignalAndWaitForHealth() {
    grpc::ClientContext context;
    const auto watch = health_->Watch(&context, {});
    HealthCheckResponse response;
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
    server_->Signal(SIGTERM);
    ASSERT_TRUE(watch->Read(&response));
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
    context.TryCancel();
    watch->Finish();
  }

  grpc::Status Create(v1::Session* session) {
    grpc::ClientContext context;
    return sessions_->CreateSession(&context, {}, session);
  }

  void ExpectPage(const char* path, int status, const char* body) const {
    const HttpAnswer answer = FetchPage(metrics_, path);
    EXPECT_EQ(answer.status, status) << path;
    EXPECT_EQ(answer.body, body) << path;
  }

  std::string Log() const { return ReadWholeFile(directory_.path() + "/log"); }

  const TinyModel model_;
  const TempDirectory directory_;
  std::unique_ptr<Process> server_;
  std::string metrics_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

TEST_F(StopE2eTest, ServesDuringTheDrainLag) {
  Start({"--drain_lag", "1h"});
  SignalAndWaitForHealth();
  EXPECT_THAT(FetchMetrics(metrics_), HasSubstr("\nsteadystate_ready{model="));
  for (const absl::string_view line :
       absl::StrSplit(FetchMetrics(metrics_), '\n')) {
    if (absl::StartsWith(line, "steadystate_ready{")) {
      EXPECT_TRUE(absl::EndsWith(line, "} 0")) << std::string(line);
    }
  }
  ExpectPage("/healthz", 200, "ok\n");
  ExpectPage("/readyz", 503, "draining\n");
  v1::Session session;
  EXPECT_TRUE(Create(&session).ok());
  grpc::ClientContext context;
  v1::StepRequest step;
  step.set_session(session.name());
  step.mutable_tokens()->add_ids(1);
  v1::StepResponse stepped;
  EXPECT_TRUE(generation_->Step(&context, step, &stepped).ok());
  // A second signal does not wait for the lag's end.
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 128 + SIGTERM);
}

TEST_F(StopE2eTest, RefusesAfterTheDrainLagAndEndsInOrder) {
  Start({"--drain_lag", "300ms", "--drain_timeout", "1h"});
  v1::Session session;
  ASSERT_TRUE(Create(&session).ok());
  // While it runs, the server stays to refuse others.
  v1::GenerateRequest request;
  request.set_session(session.name());
  request.set_text("a");
  grpc::ClientContext context;
  const auto stream = generation_->Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const absl::Time start = absl::Now();
  SignalAndWaitForHealth();
  grpc::Status status;
  do {
    status = Create(&session);
    ASSERT_TRUE(stream->Read(&response));
  } while (status.ok());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(300));
  context.TryCancel();
  EXPECT_EQ(server_->Wait(), 0) << Log();
}

// With a lag they may ask until then; without one they are told all the same.
TEST_F(StopE2eTest, ClientsAreToldAndTheServerEndsThoughNoneCloses) {
  for (const char* lag : {"300ms", "0s"}) {
    Start({"--drain_lag", lag, "--drain_timeout", "500ms"});
    v1::Session session;
    ASSERT_TRUE(Create(&session).ok());
    grpc::ClientContext idle_context;
    const auto idle = generation_->StreamStep(&idle_context);
    v1::StreamStepRequest step;
    step.mutable_step()->set_session(session.name());
    step.mutable_step()->mutable_tokens()->add_ids(1);
    ASSERT_TRUE(idle->Write(step));
    v1::StreamStepResponse answer;
    ASSERT_TRUE(idle->Read(&answer));
    v1::GenerateRequest endless;
    endless.set_session(session.name());
    endless.set_ignore_eos(true);
    grpc::ClientContext context;
    const auto generation = generation_->Generate(&context, endless);
    v1::GenerateResponse response;
    ASSERT_TRUE(generation->Read(&response));
    // Nobody reads this one, nor closes it.
    grpc::ClientContext unread_context;
    const auto unread = generation_->StreamStep(&unread_context);

    server_->Signal(SIGTERM);
    ASSERT_TRUE(idle->Read(&answer));
    EXPECT_TRUE(answer.has_going_away()) << lag;
    EXPECT_EQ(answer.results_size(), 0);
    bool told = false;
    while (generation->Read(&response)) {
      told = told || response.has_going_away();
    }
    EXPECT_TRUE(told) << lag;
    EXPECT_EQ(generation->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(server_->Wait(), 0) << Log();
    EXPECT_FALSE(idle->Read(&answer));
    EXPECT_EQ(idle->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
    unread_context.TryCancel();
  }
}

TEST_F(StopE2eTest, SaysAtItsStartHowLongTheEndMayTake) {
  const std::string store = directory_.path() + "/store";
  size_t seen = 0;
  for (const char* budget : {"0s", "1h"}) {
    Start({"--store", store, "--drain_budget", budget});
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << Log();
    const std::string log = Log().substr(seen);
    seen += log.size();
    EXPECT_THAT(log, HasSubstr("storing all sessions of a full memory"));
    const bool warned =
        absl::StrContains(log, "the server ends before all is stored");
    EXPECT_EQ(warned, absl::string_view(budget) == "0s") << log;
    EXPECT_EQ(absl::StrContains(log, "raise --drain_budget"), warned);
  }
  // What was measured with is not there.
  Start({"--store", store});
  grpc::ClientContext context;
  v1::ListSessionsResponse sessions;
  ASSERT_TRUE(sessions_->ListSessions(&context, {}, &sessions).ok());
  EXPECT_EQ(sessions.sessions_size(), 0);
}

// What cannot be stored is tried again until the budget for that is over; the
// exit code tells whether all is there.
TEST_F(StopE2eTest, ItsExitCodeTellsWhetherAllSessionsAreStored) {
  // Enough for the log, and not for what is to be stored.
  constexpr int kSessions = 20;
  constexpr rlimit kNoStore = {16 << 10, RLIM_INFINITY};
  constexpr rlimit kNoLimit = {RLIM_INFINITY, RLIM_INFINITY};
  const std::string store = directory_.path() + "/store";
  for (const bool works_again : {false, true}) {
    Start({"--store", store, "--durability", "shutdown", "--drain_budget",
           works_again ? "10m" : "100ms"});
    for (int i = 0; i < kSessions; ++i) {
      v1::Session session;
      ASSERT_TRUE(Create(&session).ok());
      grpc::ClientContext context;
      v1::StepRequest step;
      step.set_session(session.name());
      step.mutable_tokens()->mutable_ids()->Resize(500, 1);
      v1::StepResponse stepped;
      ASSERT_TRUE(generation_->Step(&context, step, &stepped).ok());
    }
    ASSERT_EQ(prlimit(server_->pid(), RLIMIT_FSIZE, &kNoStore, nullptr), 0);
    server_->Signal(SIGTERM);
    while (!absl::StrContains(Log(), "store failed")) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    if (works_again) {
      ASSERT_EQ(prlimit(server_->pid(), RLIMIT_FSIZE, &kNoLimit, nullptr), 0);
    }
    EXPECT_EQ(server_->Wait(), works_again ? 0 : 1) << Log();
    std::filesystem::remove(directory_.path() + "/log");
    Start({"--store", store});
    grpc::ClientContext listing;
    v1::ListSessionsResponse sessions;
    ASSERT_TRUE(sessions_->ListSessions(&listing, {}, &sessions).ok());
    if (works_again) {
      EXPECT_EQ(sessions.sessions_size(), kSessions);
    } else {
      EXPECT_LT(sessions.sessions_size(), kSessions);
    }
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << Log();
    std::filesystem::remove_all(store);
  }
}

// Of loading itself only the log can be waited for.
TEST_F(StopE2eTest, PagesAreThereBeforeTheModel) {
  Process server({"/bin/sh", "-c",
                  absl::StrCat("exec ", kServer,
                               " --model=" STEADYSTATE_SOURCE_DIR
                               "/deploy/models/demo --listen=127.0.0.1:0 "
                               "--metrics_listen=127.0.0.1:0 2>&1")},
                 directory_.path() + "/log");
  std::string line = server.ReadLine();
  while (!line.empty() && !absl::StrContains(line, "served by HTTP")) {
    EXPECT_FALSE(absl::StrContains(line, "model loaded")) << line;
    line = server.ReadLine();
  }
  metrics_ = absl::StrCat("127.0.0.1:", line.substr(line.rfind('=') + 1));
  ExpectPage("/healthz", 200, "ok\n");
  const HttpAnswer ready = FetchPage(metrics_, "/readyz");
  EXPECT_THAT(ready.body, AnyOf("loading\n", "ready\n"));
  EXPECT_EQ(ready.status, ready.body == "ready\n" ? 200 : 503);
  // A thread of its own writes the log: the line for standard output may be
  // the first of the two.
  bool loaded = false;
  bool listening = false;
  while (!line.empty() && !(loaded && listening)) {
    line = server.ReadLine();
    loaded = loaded || absl::StrContains(line, "model loaded");
    listening = listening || absl::StartsWith(line, "listening ");
  }
  EXPECT_TRUE(loaded);
  EXPECT_TRUE(listening);
  ExpectPage("/readyz", 200, "ready\n");
}

// Loading takes long enough for a signal that is sent when it begins.
TEST_F(StopE2eTest, ASignalWhileItLoadsEndsItAtOnce) {
  // Its log is what can be waited for.
  Process server({"/bin/sh", "-c",
                  absl::StrCat("exec ", kServer,
                               " --model=" STEADYSTATE_SOURCE_DIR
                               "/deploy/models/demo --listen=127.0.0.1:0 "
                               "--metrics_listen=127.0.0.1:0 2>&1")},
                 directory_.path() + "/log");
  ASSERT_THAT(server.ReadLine(), HasSubstr("steadystate-server starts"));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

// Not with sanitizers, whose runtime would have to come before what is
// preloaded.
#ifdef STEADYSTATE_EARLY_SIGNAL
TEST_F(StopE2eTest, ASignalBeforeMainEndsItInOrder) {
  const std::string preloaded = "LD_PRELOAD=" STEADYSTATE_EARLY_SIGNAL " exec ";
  const Outcome ended = RunShell(
      absl::StrCat(preloaded, kServer, " --model=", model_.path(),
                   " --listen=127.0.0.1:0 --metrics_listen=127.0.0.1:0"),
      directory_.path());
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.err, HasSubstr("signal received"));
  // What only prints has nothing to end in order.
  const Outcome printed = RunShell(
      absl::StrCat(preloaded, kServer, " --version"), directory_.path());
  EXPECT_EQ(printed.code, 128 + SIGTERM);
  EXPECT_EQ(printed.out, "");
}
#endif

}  // namespace
}  // namespace steadystate::stop_e2e_test
