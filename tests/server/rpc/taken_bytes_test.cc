// Goal: bytes count for the connection that they came by, from its begin to its
// end.
#include "server/rpc/taken_bytes.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace steadystate {
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
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(listen(listener, 1), 0);
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  auto* const at = reinterpret_cast<sockaddr*>(&address);  // NOLINT
  ASSERT_EQ(getsockname(listener, at, &size), 0);
  const int peer = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(peer, at, size), 0);
  const int fd = accept(listener, nullptr, nullptr);

  TakenBytes bytes;
  const TakenBytes::Count count(bytes, 1, fd);
  EXPECT_TRUE(bytes.IsConnected(1));
  close(peer);
  while (bytes.IsConnected(1)) std::this_thread::yield();
  // Of others nothing is known.
  EXPECT_TRUE(bytes.IsConnected(2));
  close(fd);
  close(listener);
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
}  // namespace steadystate
