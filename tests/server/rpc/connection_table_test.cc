// Goal: the table knows which sockets are open, although others close them.
#include "server/rpc/connection_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "gtest/gtest.h"
#include "server/base/descriptor.h"

namespace steadystate {
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

}  // namespace
}  // namespace steadystate
