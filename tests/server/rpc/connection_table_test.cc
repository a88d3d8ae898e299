// Goal: the table knows which sockets are open, although others close them.
//
// Goal: the caps are what the limit of open files leaves, and only an explicit
// value that does not fit is refused.
#include "server/rpc/connection_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/process.h"

namespace steadystate::connection_table_test {
namespace {

PeerNetwork Ipv4(const char* text) {
  sockaddr_storage address{};
  address.ss_family = AF_INET;
  inet_pton(AF_INET, text, &reinterpret_cast<sockaddr_in&>(address).sin_addr);
  return PeerOf(address);
}

PeerNetwork Ipv6(const char* text) {
  sockaddr_storage address{};
  address.ss_family = AF_INET6;
  inet_pton(AF_INET6, text,
            &reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
  return PeerOf(address);
}

TEST(PeerOfTest, IsTheAddressOrTheNetwork) {
  EXPECT_EQ(Ipv4("10.0.0.1"), Ipv4("10.0.0.1"));
  EXPECT_NE(Ipv4("10.0.0.1"), Ipv4("10.0.0.2"));
  EXPECT_EQ(Ipv4("10.0.0.1"), Ipv6("::ffff:10.0.0.1"));
  EXPECT_EQ(Ipv6("2001:db8:1:2::1"), Ipv6("2001:db8:1:2:3:4:5:6"));
  EXPECT_NE(Ipv6("2001:db8:1:2::1"), Ipv6("2001:db8:1:3::1"));
  EXPECT_NE(Ipv6("::a00:1"), Ipv4("0.0.0.0"));
}

Descriptor NewSocket() { return Descriptor(socket(AF_INET, SOCK_STREAM, 0)); }

TEST(ConnectionTableTest, CountsInAllAndByPeer) {
  const PeerNetwork one = Ipv4("10.0.0.1");
  const PeerNetwork other = Ipv4("10.0.0.2");
  const Descriptor a = NewSocket();
  const Descriptor b = NewSocket();
  Descriptor c = NewSocket();
  ConnectionTable table;
  table.Add(a.get(), one, "a");
  table.Add(b.get(), one, "a");
  table.Add(c.get(), other, "b");
  table.Sweep();
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.CountOf(one), 2u);
  EXPECT_EQ(table.CountOf(other), 1u);
  c.Close();
  EXPECT_EQ(table.size(), 3u);
  table.Sweep();
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(table.CountOf(other), 0u);
}

TEST(ConnectionTableTest, ANumberThatIsTakenAgainIsAnotherConnection) {
  const PeerNetwork one = Ipv4("10.0.0.1");
  const PeerNetwork other = Ipv4("10.0.0.2");
  Descriptor first = NewSocket();
  const int number = first.get();
  ConnectionTable table;
  table.Add(number, one, "a");
  first.Close();
  const Descriptor second = NewSocket();
  ASSERT_EQ(second.get(), number);
  table.Add(number, other, "b");
  table.Sweep();
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.CountOf(one), 0u);
  EXPECT_EQ(table.CountOf(other), 1u);
}

using testing::AllOf;
using testing::HasSubstr;

TEST(ConnectionCapsTest, TakesWhatTheLimitLeaves) {
  const struct {
    uint64_t limit;
    size_t in_all;
    size_t per_peer;
  } kCases[] = {{64, 16, 8},
                {1024, 896, 448},
                {4096, 3840, 1920},
                {1048576, 1048320, 524160}};
  for (const auto& expected : kCases) {
    const auto caps = ResolveConnectionCaps(0, 0, expected.limit);
    ASSERT_TRUE(caps.ok()) << caps.status();
    EXPECT_EQ(caps->in_all, expected.in_all);
    EXPECT_EQ(caps->per_peer, expected.per_peer);
  }
}

TEST(ConnectionCapsTest, AnyLimitIsEnoughToStart) {
  for (uint64_t limit = 0; limit < 5000; ++limit) {
    const auto caps = ResolveConnectionCaps(0, 0, limit);
    ASSERT_TRUE(caps.ok()) << caps.status();
    EXPECT_GE(caps->per_peer, 1u);
    EXPECT_GE(caps->in_all, caps->per_peer);
  }
}

TEST(ConnectionCapsTest, ExplicitValuesAreTakenAsFarAsTheyFit) {
  const auto caps = ResolveConnectionCaps(16, 16, 64);
  ASSERT_TRUE(caps.ok()) << caps.status();
  EXPECT_EQ(caps->in_all, 16u);
  EXPECT_EQ(caps->per_peer, 16u);
  EXPECT_EQ(ResolveConnectionCaps(10, 0, 1024)->per_peer, 5u);
}

TEST(ConnectionCapsTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const absl::Status in_all = ResolveConnectionCaps(17, 0, 64).status();
  EXPECT_EQ(in_all.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(in_all.message()),
              AllOf(HasSubstr("--max_connections is 17"),
                    HasSubstr("limit of 64"), HasSubstr("at most 16")));
  const absl::Status per_peer = ResolveConnectionCaps(0, 17, 64).status();
  EXPECT_EQ(per_peer.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(per_peer.message()),
              AllOf(HasSubstr("--max_connections_per_peer is 17"),
                    HasSubstr("at most 16")));
}

}  // namespace
}  // namespace steadystate::connection_table_test
