// Goal: connections are accepted up to the caps, again when others have been
// closed, and again after descriptors have run out. Method: a real listener,
// with a handler that keeps the sockets.
#include "server/rpc/acceptor.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "server/metrics/scrape_server.h"
#include "tests/testing/no_descriptors.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::acceptor_test {
namespace {

constexpr absl::string_view kGreeting = "hello";

// An acceptor on a free port. Its handler greets, and keeps the socket until
// the peer closes or it is told to close.
class AcceptorTest : public testing::Test {
 protected:
  void Start(const ConnectionCaps& caps) {
    auto listener = Listen("127.0.0.1:0", AnyAddress::kBothFamilies);
    ASSERT_TRUE(listener.ok()) << listener.status();
    port_ = listener->port;
    auto acceptor = Acceptor::Start(
        *std::move(listener), caps, metrics_, [this](Descriptor socket, int) {
          EXPECT_EQ(write(socket.get(), kGreeting.data(), kGreeting.size()),
                    static_cast<ssize_t>(kGreeting.size()));
          const MutexLock lock(mutex_);
          sockets_.push_back(std::move(socket));
        });
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  std::unique_ptr<TcpClient> Connect(const char* source = "127.0.0.1") {
    auto client = std::make_unique<TcpClient>();
    EXPECT_TRUE(client->Connect(port_, source));
    return client;
  }

  // Whether a connection that is made now is taken.
  bool IsTaken(const char* source = "127.0.0.1") {
    return Connect(source)->Receive() == kGreeting;
  }

  // Closes what the handler keeps.
  void CloseAll() {
    const MutexLock lock(mutex_);
    sockets_.clear();
  }

  double Value(absl::string_view series) const {
    for (absl::string_view line :
         absl::StrSplit(Exposition(metrics_.collectables()), '\n')) {
      double value = 0;
      if (absl::ConsumePrefix(&line, series) &&
          absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
        return value;
      }
    }
    return -1;
  }
  double Refused(absl::string_view reason) const {
    return Value(absl::StrCat(
        "steadystate_grpc_connections_refused_total{model=\"x\",reason=\"",
        reason, "\"}"));
  }

  Metrics metrics_{"x"};
  int port_ = 0;
  Mutex mutex_;
  std::vector<Descriptor> sockets_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, RefusesByClosingAboveTheCapOfAPeer) {
  Start({.in_all = 3, .per_peer = 2});
  const auto first = Connect();
  const auto second = Connect();
  EXPECT_EQ(second->Receive(), kGreeting);
  EXPECT_FALSE(IsTaken());
  EXPECT_GE(Refused("max_connections_per_peer"), 1);
  EXPECT_EQ(Refused("max_connections"), 0);
  // Another peer is not concerned.
  EXPECT_TRUE(IsTaken("127.0.0.2"));
  EXPECT_EQ(Value("steadystate_grpc_connections_accepted_total"), 3);
}

TEST_F(AcceptorTest, RefusesByClosingAboveTheCapInAll) {
  Start({.in_all = 2, .per_peer = 2});
  const auto first = Connect("127.0.0.1");
  const auto second = Connect("127.0.0.2");
  EXPECT_EQ(second->Receive(), kGreeting);
  EXPECT_FALSE(IsTaken("127.0.0.3"));
  EXPECT_GE(Refused("max_connections"), 1);
}

TEST_F(AcceptorTest, TakesNewOnesOnceOthersAreClosed) {
  Start({.in_all = 4, .per_peer = 4});
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<TcpClient>> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(Connect());
    EXPECT_EQ(clients.back()->Receive(), "");
    clients.clear();
    CloseAll();
    // Closed ones are looked for again after a while only.
    bool taken = false;
    for (int tries = 0; tries < 100'000 && !taken; ++tries) taken = IsTaken();
    EXPECT_TRUE(taken);
    CloseAll();
  }
}

TEST_F(AcceptorTest, GoesOnAfterDescriptorsHaveRunOut) {
  Start({.in_all = 100, .per_peer = 100});
  EXPECT_TRUE(IsTaken());
  std::vector<std::unique_ptr<TcpClient>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(std::make_unique<TcpClient>());
  std::string greeting;
  {
    const NoDescriptors none;
    for (const auto& client : clients) EXPECT_TRUE(client->Connect(port_));
    // The spare descriptor takes one of them at a time, to refuse it.
    greeting = clients.front()->Receive();
  }
  EXPECT_EQ(greeting, "");
  EXPECT_GE(Refused("descriptors"), 1);
  EXPECT_TRUE(IsTaken());
}

TEST_F(AcceptorTest, StopsListeningAndTellsWhatIsOpen) {
  Start({.in_all = 4, .per_peer = 4});
  const auto client = Connect();
  EXPECT_EQ(client->Receive(), kGreeting);
  const ConnectionTable open = acceptor_->Stop();
  EXPECT_EQ(open.size(), 1u);
  EXPECT_FALSE(TcpClient().Connect(port_));
}

}  // namespace
}  // namespace steadystate::acceptor_test
