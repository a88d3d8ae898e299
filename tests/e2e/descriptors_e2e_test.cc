// Goal: a server whose descriptors are few outlives clients that take all that
// it gives. Method: the real binary at a hard limit of 64.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/client/process.h"
#include "tests/testing/tcp_client.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::descriptors_e2e_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";
constexpr int kLimit = 64;

// A server at a hard limit of kLimit descriptors.
class DescriptorsE2eTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> words =
        absl::StrSplit(process_.ReadLine(), absl::ByAnyChar(" ="));
    ASSERT_EQ(words.size(), 5u) << ReadWholeFile(directory_.path() + "/log");
    address_ = words[2];
    ASSERT_TRUE(
        absl::SimpleAtoi(address_.substr(address_.rfind(':') + 1), &port_));
    ASSERT_TRUE(absl::SimpleAtoi(words[4].substr(words[4].rfind(':') + 1),
                                 &metrics_port_));
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        address_, grpc::InsecureChannelCredentials(), arguments);
  }

  // Asks for health, and for a refused connection to be tried again, for
  // `seconds` at most.
  static grpc::Status Health(const std::shared_ptr<grpc::Channel>& channel,
                             int seconds) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(seconds));
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel)->Check(&context, {},
                                                             &response);
  }

  std::string Scrape() const {
    TcpClient client(metrics_port_);
    client.Send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.ReceiveAll();
  }

  const TinyModel model_;
  const TempDirectory directory_;
  Process process_{
      {"/bin/sh", "-c",
       absl::StrCat("ulimit -n ", kLimit, "; exec \"$0\" \"$@\""), kServer,
       "--model", model_.path(), "--listen", "127.0.0.1:0", "--metrics_listen",
       "127.0.0.1:0", "--threads", "1"},
      directory_.path() + "/log"};
  std::string address_;
  int port_ = 0;
  int metrics_port_ = 0;
};

TEST_F(DescriptorsE2eTest, ServesNewClientsAfterTwiceAsManyHaveGone) {
  const auto channel = NewChannel();
  ASSERT_TRUE(Health(channel, 60).ok());
  std::vector<std::unique_ptr<TcpClient>> clients;
  for (int i = 0; i < 2 * kLimit; ++i) {
    clients.push_back(std::make_unique<TcpClient>(port_));
    clients.push_back(std::make_unique<TcpClient>(metrics_port_));
  }
  // Those that are too many are closed at once.
  EXPECT_EQ(clients[clients.size() - 2]->Receive(), "");
  EXPECT_TRUE(Health(channel, 60).ok());
  EXPECT_THAT(Scrape(),
              HasSubstr("steadystate_grpc_connections_refused_total"));
  clients.clear();
  const grpc::Status status = Health(NewChannel(), 10);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(Health(channel, 60).ok());
  process_.Signal(SIGTERM);
  EXPECT_EQ(process_.Wait(), 0);
}

TEST(DescriptorLimitTest, CapsThatDoNotFitAreRefusedWithBothNumbers) {
  const TempDirectory directory;
  const Outcome outcome =
      RunShell(absl::StrCat("ulimit -n ", kLimit, "; ", kServer,
                            " --model=/no/such/folder --max_connections=100"),
               directory.path());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("--max_connections is 100"),
                                 HasSubstr(absl::StrCat("limit of ", kLimit))));
}

}  // namespace
}  // namespace steadystate::descriptors_e2e_test
