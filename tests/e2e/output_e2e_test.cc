// Goal: whoever reads the server's output, or does not, its clients and signals
// do not notice, and clients do not decide how much it logs. Method: the real
// binary with named pipes that are full before it starts; malformed messages,
// of which Protobuf complains by itself. Where it fails, it hangs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "gtest/gtest.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/e2e/fetch_metrics.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::output_e2e_test {
namespace {

using testing::HasSubstr;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";

// A named pipe that takes no more bytes.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(mkfifo(path().c_str(), 0600), 0);
    fd_ = open(path().c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const std::string page(4096, '\n');
    while (write(fd_, page.data(), page.size()) > 0) {
    }
    while (write(fd_, "\n", 1) > 0) {
    }
  }
  ~FullPipe() { close(fd_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  std::string path() const { return directory_.path() + "/pipe"; }

 private:
  const TempDirectory directory_;
  int fd_ = -1;
};

std::vector<std::string> Command(const TinyModel& model) {
  return {kServer,       "--model",     model.path(),
          "--listen",    "127.0.0.1:0", "--metrics_listen",
          "127.0.0.1:0", "--threads",   "1"};
}

struct Addresses {
  std::string grpc;
  std::string metrics;
};

Addresses ReadAddresses(Process& server) {
  const std::vector<std::string> words =
      absl::StrSplit(server.ReadLine(), absl::ByAnyChar(" ="));
  if (words.size() != 5) return {};
  return {words[2], words[4]};
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

// Calls Step with a session that is not UTF-8.
void SendMalformed(grpc::Channel& channel, int times) {
  const grpc::internal::RpcMethod step("/steadystate.v1.GenerationService/Step",
                                       grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Slice bytes("\n\2\xff\xfe", 4);
  for (int i = 0; i < times; ++i) {
    grpc::ClientContext context;
    const grpc::ByteBuffer request(&bytes, 1);
    grpc::ByteBuffer response;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
            &channel, step, &context, request, &response);
    EXPECT_FALSE(status.ok());
  }
}

grpc::Status CreateSession(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  v1::Session session;
  return v1::SessionService::NewStub(channel)->CreateSession(&context, {},
                                                             &session);
}

TEST(OutputE2eTest, CallsAndSignalsGoOnWhereNobodyReadsStandardError) {
  const TinyModel model;
  const FullPipe pipe;
  Process server(Command(model), pipe.path());
  const Addresses addresses = ReadAddresses(server);
  const auto channel = Connect(addresses.grpc);
  constexpr int kMalformed = 500;
  SendMalformed(*channel, kMalformed);
  EXPECT_TRUE(CreateSession(channel).ok());
  const std::string metrics = FetchMetrics(addresses.metrics);
  constexpr absl::string_view kDropped = "steadystate_log_lines_dropped_total{";
  const size_t at = metrics.find("\n" + std::string(kDropped));
  ASSERT_NE(at, std::string::npos) << metrics;
  const std::vector<std::string> words = absl::StrSplit(
      metrics.substr(at + 1, metrics.find('\n', at + 1) - at - 1), ' ');
  double dropped = 0;
  EXPECT_TRUE(absl::SimpleAtod(words.back(), &dropped));
  EXPECT_GT(dropped, 0);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(OutputE2eTest, EndsWhereNobodyReadsStandardOutput) {
  const TinyModel model;
  const FullPipe pipe;
  const TempDirectory directory;
  // Its log is what can be read.
  const std::string command = absl::StrCat(
      "exec ", absl::StrJoin(Command(model), " "), " 2>&1 >", pipe.path());
  Process server({"/bin/sh", "-c", command}, directory.path() + "/stderr");
  std::string line = server.ReadLine();
  while (!absl::StrContains(line, "grpc server started")) {
    ASSERT_NE(line, "");
    line = server.ReadLine();
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

// What a process has open under a number.
std::string FileOf(const Process& process, int fd) {
  char target[256];
  const ssize_t size =
      readlink(absl::StrCat("/proc/", process.pid(), "/fd/", fd).c_str(),
               target, sizeof(target));
  return size < 0 ? "" : std::string(target, static_cast<size_t>(size));
}

TEST(OutputE2eTest, NothingGetsTheNumbersOfStandardDescriptorsThatAreClosed) {
  const TinyModel model;
  const TempDirectory directory;
  const std::string command =
      absl::StrCat("exec ", absl::StrJoin(Command(model), " "), " 0<&- 2>&-");
  Process server({"/bin/sh", "-c", command}, directory.path() + "/stderr");
  EXPECT_NE(ReadAddresses(server).grpc, "");
  EXPECT_EQ(FileOf(server, STDIN_FILENO), "/dev/null");
  EXPECT_EQ(FileOf(server, STDERR_FILENO), "/dev/null");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(OutputE2eTest, EndsWhereStandardOutputIsClosed) {
  const TinyModel model;
  const TempDirectory directory;
  // Its log is what can be read.
  const std::string command =
      absl::StrCat("exec 3>&1 1>&-; exec ", absl::StrJoin(Command(model), " "),
                   " 2>&3 3>&-");
  Process server({"/bin/sh", "-c", command}, directory.path() + "/stderr");
  std::string line = server.ReadLine();
  while (!absl::StrContains(line, "grpc server started")) {
    ASSERT_NE(line, "");
    line = server.ReadLine();
  }
  EXPECT_EQ(FileOf(server, STDOUT_FILENO), "/dev/null");
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST(OutputE2eTest, SaysNoToWrongFlagsWhereNobodyReads) {
  const FullPipe pipe;
  Process server({kServer, "--no_such_flag"}, pipe.path());
  EXPECT_EQ(server.Wait(), 2);
}

TEST(OutputE2eTest, LibrariesLogThroughOurLogOnly) {
  const TinyModel model;
  const TempDirectory directory;
  std::vector<std::string> command = Command(model);
  command.insert(command.end(), {"--log_level", "off"});
  Process server(command, directory.path() + "/log");
  SendMalformed(*Connect(ReadAddresses(server).grpc), 3);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_EQ(ReadWholeFile(directory.path() + "/log"), "");
}

TEST(OutputE2eTest, ClientsDoNotDecideHowMuchIsLogged) {
  const TinyModel model;
  const TempDirectory directory;
  Process server(Command(model), directory.path() + "/log");
  const auto channel = Connect(ReadAddresses(server).grpc);
  const absl::Time start = absl::Now();
  SendMalformed(*channel, 1000);
  const int64_t spans = 1 + (absl::Now() - start) / absl::Seconds(10);
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
  const std::string log = ReadWholeFile(directory.path() + "/log");
  int64_t lines = 0;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    if (absl::StrContains(line, "WARNING")) ++lines;
  }
  EXPECT_GT(lines, 0);
  EXPECT_LE(lines, 10 * spans);
  EXPECT_THAT(log, HasSubstr("protobuf"));
}

}  // namespace
}  // namespace steadystate::output_e2e_test
