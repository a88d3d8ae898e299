// Goal: bytes count for the connection that they came by, from its begin to its
// end.
#include "server/rpc/connection.h"

#include <sys/socket.h>

#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "server/base/listener.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::connection_test {
namespace {

TEST(TakenBytesTest, CountsByConnectionFromItsBegin) {
  TakenBytes bytes;
  bytes.Add(1, 100);
  const TakenBytes::Count one(bytes, 1, -1);
  const TakenBytes::Count two(bytes, 2, -1);
  bytes.Add(1, 10);
  bytes.Add(2, 20);
  bytes.Add(2, 5);
  bytes.Add(3, 7);
  EXPECT_EQ(one.Get(), 10u);
  EXPECT_EQ(two.Get(), 25u);
}

TEST(TakenBytesTest, KnowsWhoseConnectionHasEnded) {
  const auto listener = Listen("127.0.0.1:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(listener.ok());
  auto peer = std::make_unique<TcpClient>(listener->port);
  const Descriptor socket(
      accept4(listener->sockets.front().get(), nullptr, nullptr, 0));

  TakenBytes bytes;
  const TakenBytes::Count count(bytes, 1, socket.get());
  EXPECT_TRUE(bytes.IsConnected(1));
  peer.reset();
  while (bytes.IsConnected(1)) std::this_thread::yield();
  // Of others nothing is known.
  EXPECT_TRUE(bytes.IsConnected(2));
}

// A peer may come again by the same port before its end has been noticed.
TEST(TakenBytesTest, AConnectionOfTheSameNameBeginsAnew) {
  TakenBytes bytes;
  auto first = std::make_unique<TakenBytes::Count>(bytes, 1, -1);
  bytes.Add(1, 10);
  const TakenBytes::Count second(bytes, 1, -1);
  bytes.Add(1, 5);
  first.reset();
  bytes.Add(1, 2);
  EXPECT_EQ(second.Get(), 7u);
}

}  // namespace
}  // namespace steadystate::connection_test
