// Goal: the server's process keeps its promises: what it prints, how it ends,
// what it says about mistakes, what its metrics count. Method: the real binary
// on a tiny model and free ports.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/e2e/fetch_metrics.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::server_e2e_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";
constexpr char kClient[] = STEADYSTATE_BIN_DIR "/steadystate";

// A server process that is ready, with a client's stubs.
class ServerProcess {
 public:
  // `launcher`: a command that runs the server, with its arguments.
  explicit ServerProcess(const std::vector<std::string>& flags = {},
                         const std::vector<std::string>& launcher = {})
      : process_(Arguments(flags, launcher), log_path()) {
    const std::vector<std::string> words =
        absl::StrSplit(process_.ReadLine(), absl::ByAnyChar(" ="));
    if (words.size() != 5 || words[0] != "listening" || words[1] != "grpc" ||
        words[3] != "metrics") {
      ADD_FAILURE() << "no listening line; log: " << Log();
      return;
    }
    address_ = words[2];
    metrics_address_ = words[4];
    const auto channel =
        grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel);
    generation_ = v1::GenerationService::NewStub(channel);
  }

  std::string Log() const { return ReadWholeFile(log_path()); }
  const std::string& address() const { return address_; }
  const std::string& metrics_address() const { return metrics_address_; }
  std::string Metrics() const { return FetchMetrics(metrics_address_); }

  // The value of a series, its label "model" left out; -1 if absent.
  double MetricValue(absl::string_view series) const {
    const std::string label = absl::StrCat(
        "model=\"", model_.path().substr(model_.path().rfind('/') + 1), "\"");
    const std::string page =
        absl::StrReplaceAll(Metrics(), {{absl::StrCat(",", label), ""},
                                        {absl::StrCat(label, ","), ""},
                                        {absl::StrCat("{", label, "}"), ""}});
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      double value = 0;
      if (absl::ConsumePrefix(&line, series) &&
          absl::ConsumePrefix(&line, " ") && absl::SimpleAtod(line, &value)) {
        return value;
      }
    }
    return -1;
  }

  Process& process() { return process_; }
  v1::SessionService::Stub& sessions() { return *sessions_; }
  v1::GenerationService::Stub& generation() { return *generation_; }

  // With the server's ttl if it is 0.
  std::string CreateSession(int ttl_seconds = 0) {
    grpc::ClientContext context;
    v1::CreateSessionRequest request;
    if (ttl_seconds != 0) {
      request.mutable_session()->mutable_ttl()->set_seconds(ttl_seconds);
    }
    v1::Session session;
    const grpc::Status status =
        sessions_->CreateSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session.name();
  }

  // Absorbs one token within a minute.
  grpc::Status Step(const std::string& session) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(1));
    v1::StepRequest request;
    request.set_session(session);
    request.mutable_tokens()->add_ids(1);
    v1::StepResponse response;
    return generation_->Step(&context, request, &response);
  }

 private:
  std::vector<std::string> Arguments(const std::vector<std::string>& flags,
                                     const std::vector<std::string>& launcher) {
    std::vector<std::string> arguments = launcher;
    for (const char* argument :
         {kServer, "--model", model_.path().c_str(), "--listen", "127.0.0.1:0",
          "--metrics_listen", "127.0.0.1:0", "--threads", "1"}) {
      arguments.emplace_back(argument);
    }
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return arguments;
  }
  std::string log_path() const { return directory_.path() + "/log"; }

  const TinyModel model_;
  const TempDirectory directory_;
  Process process_;
  std::string address_;
  std::string metrics_address_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

#ifdef STEADYSTATE_SET_CLOCK
// A server whose time of day can be set.
class ClockE2eTest : public testing::Test {
 protected:
  // So many seconds off the machine's.
  void SetClock(int64_t seconds) {
    std::ofstream file(file_, std::ios::binary | std::ios::in | std::ios::out);
    file.write(reinterpret_cast<const char*>(&seconds), sizeof(seconds));
  }

  // Waits until that many sessions are idle; false after a minute.
  bool AwaitIdleSessions(double count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (server_.MetricValue("steadystate_sessions{state=\"idle\"}") ==
          count) {
        return true;
      }
    }
    return false;
  }

  const TempDirectory directory_;
  const std::string file_ = directory_.Write("offset", std::string(8, '\0'));
  ServerProcess server_{{"--session_ttl", "1h"},
                        {"/usr/bin/env", "LD_PRELOAD=" STEADYSTATE_SET_CLOCK,
                         "STEADYSTATE_CLOCK_FILE=" + file_}};
};

TEST_F(ClockE2eTest, SettingTheTimeOfDayExpiresNothingAndStallsNothing) {
  constexpr int64_t kFar = 7200;  // twice the ttl
  const std::string session = server_.CreateSession();
  for (const int64_t offset : {kFar, -kFar, int64_t{0}}) {
    SetClock(offset);
    EXPECT_TRUE(server_.Step(session).ok());
    // Nobody calls meanwhile: the server itself must wake up for it.
    server_.CreateSession(/*ttl_seconds=*/1);
    EXPECT_TRUE(AwaitIdleSessions(1)) << "at " << offset;
  }
  EXPECT_TRUE(server_.Step(session).ok());
  for (const absl::string_view line : absl::StrSplit(server_.Metrics(), '\n')) {
    if (absl::StrContains(line, "_sum{")) {
      EXPECT_FALSE(absl::StrContains(line, "} -")) << line;
    }
  }
  server_.process().Signal(SIGTERM);
  EXPECT_EQ(server_.process().Wait(), 0) << server_.Log();
}

#endif  // STEADYSTATE_SET_CLOCK

// The thread of a process that has this name; 0 if there is none.
pid_t FindThread(pid_t process, const std::string& name) {
  const std::filesystem::path tasks = absl::StrCat("/proc/", process, "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    // It may have ended by now.
    std::ifstream file(task.path() / "comm");
    std::string comm;
    pid_t id = 0;
    if (std::getline(file, comm) && comm == name &&
        absl::SimpleAtoi(task.path().filename().string(), &id)) {
      return id;
    }
  }
  return 0;
}

// The same, but waits: a thread has its name when it has first run. 0 after a
// minute.
pid_t AwaitThread(pid_t process, const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  pid_t found = 0;
  while (found == 0 && std::chrono::steady_clock::now() < end) {
    found = FindThread(process, name);
  }
  return found;
}

// Asks as a container's health check does until the exit code is this; false
// after a minute.
bool AwaitHealthCode(const std::string& address, int code) {
  const TempDirectory directory;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < end) {
    const Outcome health = RunShell(
        absl::StrCat(kClient, " health --address ", address), directory.path());
    if (health.code == code) return true;
  }
  return false;
}

TEST(ServerE2eTest, AStoppedComputeThreadTurnsHealthAndGoingOnTurnsItBack) {
  ServerProcess server;
  const pid_t thread = AwaitThread(server.process().pid(), "compute");
  ASSERT_NE(thread, 0);
  if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    GTEST_SKIP() << "threads of other processes cannot be stopped here";
  }
  EXPECT_TRUE(AwaitHealthCode(server.address(), 0));
  ASSERT_EQ(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr), 0);
  int status = 0;
  ASSERT_EQ(waitpid(thread, &status, __WALL), thread);
  EXPECT_TRUE(AwaitHealthCode(server.address(), 1));
  EXPECT_EQ(server.MetricValue("steadystate_ready"), 0);
  EXPECT_EQ(FetchPage(server.metrics_address(), "/healthz").body, "stuck\n");
  EXPECT_GT(server.MetricValue("steadystate_heartbeat_age_seconds"), 5);
  ASSERT_EQ(ptrace(PTRACE_DETACH, thread, nullptr, nullptr), 0);
  EXPECT_TRUE(AwaitHealthCode(server.address(), 0));
  EXPECT_TRUE(server.Step(server.CreateSession()).ok());
}

// Runs the binary to its end.
// On free ports, unless the arguments say otherwise: somebody else may have a
// server on this machine.
Outcome RunServer(const std::string& arguments) {
  const TempDirectory directory;
  return RunShell(
      absl::StrCat(kServer,
                   " --listen 127.0.0.1:0 --metrics_listen 127.0.0.1:0 ",
                   arguments),
      directory.path());
}

class EndsInOrderOn : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Signals, EndsInOrderOn,
                         testing::Values(SIGTERM, SIGINT));

TEST_P(EndsInOrderOn, TheSignal) {
  ServerProcess server;
  grpc::ClientContext context;
  v1::StepRequest request;
  request.set_session(server.CreateSession());
  request.mutable_tokens()->add_ids(1);
  v1::StepResponse response;
  EXPECT_TRUE(server.generation().Step(&context, request, &response).ok());
  EXPECT_EQ(response.position(), 1u);
  server.process().Signal(GetParam());
  EXPECT_EQ(server.process().ReadLine(), "") << "more than one line printed";
  EXPECT_EQ(server.process().Wait(), 0) << server.Log();
}

TEST(ServerE2eTest, RunningRequestsAreCutOffAfterTheDrainTimeout) {
  ServerProcess server({"--drain_timeout", "100ms"});
  v1::GenerateRequest request;
  request.set_session(server.CreateSession());
  request.set_text("a");
  grpc::ClientContext context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const absl::Time start = absl::Now();
  server.process().Signal(SIGTERM);
  while (stream->Read(&response)) {
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.process().Wait(), 0) << server.Log();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST(ServerE2eTest, SecondSignalEndsItAtOnce) {
  ServerProcess server({"--drain_timeout", "1h"});
  v1::GenerateRequest request;
  request.set_session(server.CreateSession());
  request.set_text("a");
  grpc::ClientContext context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server.process().Signal(SIGTERM);
  // It is draining once it refuses new sessions.
  grpc::Status status;
  do {
    grpc::ClientContext create;
    v1::Session session;
    status = server.sessions().CreateSession(&create, {}, &session);
    ASSERT_TRUE(stream->Read(&response));
  } while (status.ok());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 128 + SIGTERM);
}

struct WrongFlag {
  std::string arguments;
  std::string said;
};

// flags_test.cc has the others.
TEST(ServerE2eTest, WrongFlagsEndIt) {
  const TinyModel model;
  const std::vector<WrongFlag> cases = {
      {"", "--model"},
      {"--no_such_flag=1", "--no_such_flag"},
      {"--threads=5000", "threads"},
      {"--listen=nowhere", "nowhere"},
      {"--state_memory=16KiB", "one session of this model takes"},
  };
  for (const WrongFlag& c : cases) {
    const std::string model_flag =
        c.said == "--model" ? "" : absl::StrCat("--model=", model.path(), " ");
    const Outcome outcome = RunServer(model_flag + c.arguments);
    EXPECT_EQ(outcome.code, 2) << c.arguments << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(c.said));
    EXPECT_EQ(outcome.out, "");
  }
}

// A model may take minutes to load.
TEST(ServerE2eTest, AddressesAreTakenBeforeTheModelIsLoaded) {
  ServerProcess server;
  for (const std::string& flags :
       {absl::StrCat("--metrics_listen off --listen ", server.address()),
        absl::StrCat("--listen 127.0.0.1:0 --metrics_listen ",
                     server.metrics_address())}) {
    const Outcome outcome =
        RunServer(absl::StrCat("--model /no/such/model ", flags));
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("cannot listen on 127.0.0.1:"));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(ServerE2eTest, MetricsCanBeOff) {
  ServerProcess server({"--metrics_listen", "off"});
  EXPECT_EQ(server.metrics_address(), "off");
  EXPECT_TRUE(server.Step(server.CreateSession()).ok());
  EXPECT_TRUE(AwaitHealthCode(server.address(), 0));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0) << server.Log();
}

TEST(ServerE2eTest, TellsItsVersionAndHelp) {
  const Outcome version = RunServer("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr("steadystate-server "));
  EXPECT_THAT(RunServer("-h").out, HasSubstr("--metrics_listen HOST:PORT|off"));
}

// What the log of a server says, from its start to its end.
std::string LogOf(const std::vector<std::string>& flags) {
  ServerProcess server(flags);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0) << server.Log();
  return server.Log();
}

TEST(ServerE2eTest, SaysHowManyRowsOfAPromptItTakesAtOnce) {
  // Which of the numbers depends on the CPU.
  EXPECT_THAT(LogOf({}), ContainsRegex("prefill_chunk_rows=(64|128|256) "
                                       "chosen_by=hardware"));
  EXPECT_THAT(LogOf({"--max_batch_rows", "16"}),
              HasSubstr("prefill_chunk_rows=16 chosen_by=hardware"));
  EXPECT_THAT(LogOf({"--prefill_chunk_rows", "7"}),
              HasSubstr("prefill_chunk_rows=7 chosen_by=flag"));
}

TEST(ServerE2eTest, ModelThatIsNotThereIsNamed) {
  const Outcome outcome = RunServer("--model=/no/such/folder");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/no/such/folder"));
  EXPECT_EQ(outcome.out, "");
}

TEST(ServerE2eTest, UnknownModelTypeIsNamed) {
  const TinyModel model;
  const TempDirectory directory;
  directory.Write("model.safetensors",
                  ReadWholeFile(model.path() + "/model.safetensors"));
  directory.Write(
      "config.json",
      absl::StrReplaceAll(ReadWholeFile(model.path() + "/config.json"),
                          {{"\"gla\"", "\"unheard_of\""}}));
  const Outcome outcome = RunServer("--model=" + directory.path());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("unheard_of"));
}

TEST(ServerE2eTest, HowTheCheckpointIsReadIsLoggedOnce) {
  const std::string log =
      LogOf({"--model", STEADYSTATE_SOURCE_DIR "/tests/golden/mamba2-groups",
             "--transformers_version=4.57.6"});
  const std::vector<std::string> parts =
      absl::StrSplit(log, "over all channels");
  EXPECT_EQ(parts.size(), 2u) << log;
}

TEST(ServerE2eTest, TakenPortsAreNamed) {
  ServerProcess server;
  const TinyModel model;
  const std::string base = absl::StrCat("--model=", model.path());
  const Outcome grpc_taken = RunServer(absl::StrCat(
      base, " --metrics_listen=127.0.0.1:0 --listen=", server.address()));
  EXPECT_EQ(grpc_taken.code, 1);
  EXPECT_THAT(grpc_taken.err, HasSubstr(server.address()));
  const Outcome metrics_taken = RunServer(absl::StrCat(
      base,
      " --listen=127.0.0.1:0 --metrics_listen=", server.metrics_address()));
  EXPECT_EQ(metrics_taken.code, 1);
  EXPECT_THAT(metrics_taken.err, HasSubstr(server.metrics_address()));
}

TEST(ServerE2eTest, MetricsCountWhatWasSent) {
  ServerProcess server;
  const std::string session = server.CreateSession();
  constexpr int kSteps = 7;
  for (int i = 0; i < kSteps; ++i) {
    grpc::ClientContext context;
    v1::StepRequest request;
    request.set_session(session);
    request.mutable_tokens()->mutable_ids()->Resize(2, i);
    v1::StepResponse response;
    ASSERT_TRUE(server.generation().Step(&context, request, &response).ok());
  }
  v1::GenerateRequest request;
  request.set_session(session);
  request.set_text("abc");
  request.set_max_tokens(11);
  grpc::ClientContext context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
  }
  ASSERT_TRUE(stream->Finish().ok());
  grpc::ClientContext refused;
  v1::StepRequest unknown;
  unknown.set_session("sessions/none");
  unknown.mutable_tokens()->add_ids(1);
  v1::StepResponse step;
  server.generation().Step(&refused, unknown, &step);

  const std::string calls =
      "steadystate_request_duration_seconds_count{code=\"";
  const std::string service = "\",method=\"steadystate.v1.GenerationService/";
  EXPECT_EQ(server.MetricValue(calls + "OK" + service + "Step\"}"), kSteps);
  EXPECT_EQ(server.MetricValue(calls + "NOT_FOUND" + service + "Step\"}"), 1);
  EXPECT_EQ(server.MetricValue(calls + "OK" + service + "Generate\"}"), 1);
  EXPECT_EQ(server.MetricValue("steadystate_tokens_total{kind=\"prompt\"}"),
            2 * kSteps + 3);
  EXPECT_EQ(server.MetricValue("steadystate_tokens_total{kind=\"generated\"}"),
            11);
  EXPECT_EQ(server.MetricValue(
                "steadystate_errors_total{reason=\"SESSION_NOT_FOUND\"}"),
            1);
}

TEST(ServerE2eTest, MetricsPassPromtool) {
  const TempDirectory directory;
  if (RunShell("command -v promtool", directory.path()).code != 0) {
    GTEST_SKIP() << "promtool is not installed (package prometheus)";
  }
  ServerProcess server;
  server.CreateSession();
  const std::string page = directory.Write("page", server.Metrics());
  const Outcome outcome =
      RunShell("promtool check metrics < " + page, directory.path());
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
}

}  // namespace
}  // namespace steadystate::server_e2e_test
