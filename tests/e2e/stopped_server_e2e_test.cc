// Goal: no call of a client waits for ever for a server that gives no sign of
// life. Method: the real server, stopped by SIGSTOP while it streams to a
// client whose keepalive is short; for the command line, a server that does no
// more than to begin a connection. Where it fails, it hangs.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "steadystate/client.h"
#include "steadystate/error.h"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::stopped_server_e2e_test {
namespace {

using testing::StartsWith;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";
constexpr char kClient[] = STEADYSTATE_BIN_DIR "/steadystate";

TEST(StoppedServerE2eTest, EndsAStream) {
  const TinyModel model;
  const TempDirectory directory;
  Process server({kServer, "--model", model.path(), "--listen", "127.0.0.1:0",
                  "--metrics_listen", "127.0.0.1:0", "--threads", "1"},
                 directory.path() + "/log");
  const std::vector<std::string> words =
      absl::StrSplit(server.ReadLine(), absl::ByAnyChar(" ="));
  ASSERT_EQ(words.size(), 5u);
  const auto client = client::Client::Connect(
      words[2], {.connect_timeout = absl::Minutes(1),
                 .keepalive_time = absl::Seconds(1),
                 .keepalive_timeout = absl::Seconds(1)});
  ASSERT_TRUE(client.ok()) << client.status();
  const auto session = client->CreateSession({});
  ASSERT_TRUE(session.ok()) << session.status();
  v1::GenerateRequest request;
  request.set_session(session->name());
  request.set_text("a");
  request.set_ignore_eos(true);
  const absl::Status ended =
      client->Generate(request, [&server](const v1::GenerateResponse&) {
        server.Signal(SIGSTOP);
        return absl::OkStatus();
      });
  EXPECT_TRUE(client::IsUnreachable(ended)) << ended;
}

// Takes one connection, says what a server of HTTP/2 says first, and then
// nothing any more.
class SilentServer {
 public:
  SilentServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_, any, size), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, any, &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~SilentServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  SilentServer(const SilentServer&) = delete;
  SilentServer& operator=(const SilentServer&) = delete;

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  void Serve() const {
    const int connection = accept(listener_, nullptr, nullptr);
    constexpr char kEmptySettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    EXPECT_EQ(write(connection, kEmptySettings, sizeof(kEmptySettings)),
              static_cast<ssize_t>(sizeof(kEmptySettings)));
    // Until the client closes it.
    char bytes[4096];
    while (read(connection, bytes, sizeof(bytes)) > 0) continue;
    close(connection);
  }

  const int listener_;
  int port_ = 0;
  std::thread thread_;
};

Outcome RunClient(const std::string& arguments) {
  const SilentServer server;
  const TempDirectory directory;
  return RunShell(
      absl::StrCat(kClient, " ", arguments, " --address ", server.address()),
      directory.path());
}

TEST(StoppedServerE2eTest, EndsUnaryCallsOfTheCommandLine) {
  const Outcome model = RunClient("model --timeout 1s");
  EXPECT_EQ(model.code, 1);
  EXPECT_THAT(model.err, StartsWith("error: DEADLINE_EXCEEDED"));
  // Its own call has no limit, but it begins with others that have.
  const Outcome generate = RunClient("generate --prompt a");
  EXPECT_EQ(generate.code, 1);
  EXPECT_THAT(generate.err, StartsWith("error: DEADLINE_EXCEEDED"));
}

TEST(StoppedServerE2eTest, WrongTimeoutsAreNamed) {
  const TempDirectory directory;
  const std::vector<std::pair<std::string, std::string>> kSaid = {
      {"10", "has no unit: ms, s, m or h, such as 10s"},
      {"-1s", "is below 0; 0 means never"},
      {"soon", "is not a duration such as 500ms"}};
  for (const auto& [timeout, said] : kSaid) {
    const Outcome outcome = RunShell(
        absl::StrCat(kClient, " health --timeout ", timeout), directory.path());
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, StartsWith(absl::StrCat("error: --timeout: '",
                                                     timeout, "' ", said)));
  }
}

}  // namespace
}  // namespace steadystate::stopped_server_e2e_test
