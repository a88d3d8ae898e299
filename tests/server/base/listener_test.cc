// Goal: addresses are listened on as they are written, and refused otherwise.
#include "server/base/listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/tcp_client.h"

namespace steadystate::listener_test {
namespace {

using testing::HasSubstr;

TEST(ParseHostPortTest, TellsHostAndPort) {
  const struct {
    const char* text;
    const char* host;
    int port;
  } kCases[] = {{"127.0.0.1:50051", "127.0.0.1", 50051},
                {"localhost:0", "localhost", 0},
                {"[::1]:65535", "::1", 65535},
                {"::1:80", "::1", 80}};
  for (const auto& expected : kCases) {
    const auto address = ParseHostPort(expected.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host, expected.host);
    EXPECT_EQ(address->port, expected.port);
  }
}

TEST(ParseHostPortTest, RefusesTheRestByName) {
  for (const char* text :
       {"", "50051", ":50051", "localhost:", "a:b", "h:65536", "h:-1"}) {
    const auto address = ParseHostPort(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(address.status().message()),
                HasSubstr(absl::StrCat("'", text, "'")));
  }
}

TEST(ParseHostPortTest, TellsTheFormThatIsMeant) {
  const struct {
    const char* text;
    const char* said;
  } kCases[] = {{":50051", "give 127.0.0.1:50051 to listen"},
                {"50051", "0.0.0.0:50051 for those of others"},
                {"localhost", "a port too, as in localhost:50051"},
                {"http://[::1]:5/x", "without http://, that is [::1]:5"},
                {"https://host", "without https://, for instance"},
                {"host:port", "with a port of 0 to 65535"},
                {"host:1/x", "with a port of 0 to 65535"}};
  for (const auto& expected : kCases) {
    EXPECT_THAT(std::string(ParseHostPort(expected.text).status().message()),
                HasSubstr(expected.said));
  }
}

// Whether a connection to the listener arrives.
bool Accepts(const Listener& listener) {
  const TcpClient client(listener.port);
  for (const Descriptor& socket : listener.sockets) {
    const Descriptor accepted(accept4(socket.get(), nullptr, nullptr, 0));
    if (accepted.valid()) return client.connected();
  }
  return false;
}

TEST(ListenTest, TakesNames) {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0) {
    GTEST_SKIP() << "this system does not know localhost: no /etc/hosts?";
  }
  freeaddrinfo(found);
  const auto listener = Listen("localhost:0", AnyAddress::kBothFamilies);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(Accepts(*listener));
}

TEST(ListenTest, TakesAddresses) {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "[::]"}) {
    const auto listener =
        Listen(absl::StrCat(host, ":0"), AnyAddress::kBothFamilies);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_GT(listener->port, 0);
    EXPECT_TRUE(Accepts(*listener)) << host;
  }
}

TEST(ListenTest, AnyAddressOfOneFamilyLeavesTheOtherAlone) {
  const auto listener = Listen("0.0.0.0:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(listener.ok()) << listener.status();
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(listener->sockets.front().get(),
                        reinterpret_cast<sockaddr*>(&address), &size),
            0);
  EXPECT_EQ(address.ss_family, AF_INET);
  EXPECT_TRUE(Accepts(*listener));
}

TEST(ListenTest, RefusesATakenPortByName) {
  for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
    const auto first =
        Listen(absl::StrCat(host, ":0"), AnyAddress::kBothFamilies);
    ASSERT_TRUE(first.ok()) << first.status();
    const std::string taken = absl::StrCat(host, ":", first->port);
    const auto second = Listen(taken, AnyAddress::kBothFamilies);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
  }
}

TEST(BindTest, NobodyConnectsBeforeItListens) {
  const auto bound = Bind("127.0.0.1:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_GT(bound->port, 0);
  EXPECT_FALSE(TcpClient(bound->port).connected());
  ASSERT_TRUE(StartListening(*bound).ok());
  EXPECT_TRUE(Accepts(*bound));
}

TEST(BindTest, TellsThatAPortIsTaken) {
  const auto first = Listen("127.0.0.1:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      Bind(absl::StrCat("127.0.0.1:", first->port), AnyAddress::kIpv4Only);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

// Both have taken the address, which is no error until the first listens.
TEST(BindTest, TheSecondToListenIsTold) {
  const auto first = Bind("127.0.0.1:0", AnyAddress::kIpv4Only);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = absl::StrCat("127.0.0.1:", first->port);
  const auto second = Bind(taken, AnyAddress::kIpv4Only);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(StartListening(*first).ok());
  const absl::Status late = StartListening(*second);
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(late.message()), HasSubstr(taken));
}

TEST(ListenTest, RefusesForeignAddresses) {
  EXPECT_EQ(Listen("192.0.2.1:0", AnyAddress::kIpv4Only).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(ListenTest, SaysThatANameIsNotKnown) {
  // Too long for a name, so that nobody is asked for it.
  const std::string host(70, 'a');
  const absl::Status status =
      Listen(host + ":5", AnyAddress::kIpv4Only).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("the name ", host, " is not known (")));
}

}  // namespace
}  // namespace steadystate::listener_test
