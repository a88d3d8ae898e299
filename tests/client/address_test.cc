// Goal: what people write for an address is understood, or answered with the
// form to use. Method: tables.
#include "steadystate/address.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::address_test {
namespace {

using testing::HasSubstr;

TEST(ReadAddressTest, UnderstandsWhatPeopleWrite) {
  const std::map<std::string, std::string> kMeant = {
      {"127.0.0.1:50052", "127.0.0.1:50052"},
      {"host.example:1", "host.example:1"},
      {":50052", "127.0.0.1:50052"},
      {"50052", "127.0.0.1:50052"},
      {"localhost", "localhost:50051"},
      {"127.0.0.1", "127.0.0.1:50051"},
      {"http://localhost:50052/", "localhost:50052"},
      {"grpc://localhost", "localhost:50051"},
      {"[::1]:50052", "[::1]:50052"},
      {"[::1]", "[::1]:50051"},
      {"ipv4:1.2.3.4:5,6.7.8.9:10", "ipv4:1.2.3.4:5,6.7.8.9:10"},
      {"ipv6:[::1]:5", "ipv6:[::1]:5"},
      {"[fe80::1%eth0]:5", "[fe80::1%eth0]:5"},
      {"unix:/run/socket", "unix:/run/socket"},
      {"dns:///host:1", "dns:///host:1"}};
  for (const auto& [text, meant] : kMeant) {
    const auto address = ReadAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(*address, meant);
  }
}

TEST(ReadAddressTest, TellsTheFormWhereItDoesNot) {
  const std::map<std::string, std::string> kSaid = {
      {"", "give HOST:PORT"},
      {"a b", "give HOST:PORT"},
      {"host:", "ports are 1 to 65535"},
      {"host:0", "ports are 1 to 65535"},
      {"host:65536", "ports are 1 to 65535"},
      {"host:port", "ports are 1 to 65535"},
      {"99999", "ports are 1 to 65535"},
      {"::1:50051", "in brackets"},
      {"ipv4:host:1", "after ipv4: come numbers"},
      {"ipv4:1.2.3.4", "after ipv4: come numbers"},
      {"ipv4:1.2.3.4:1,", "after ipv4: come numbers"},
      {"ipv4:1.2.3:1", "after ipv4: come numbers"},
      {"ipv6:::1:1", "after ipv6: come numbers"},
      {"ipv6:[::1]", "after ipv6: come numbers"},
      {"[::1", "in brackets is an IPv6 address"},
      {"[host]:1", "in brackets is an IPv6 address"},
      {"[]:1", "in brackets is an IPv6 address"},
      {"::1]:1", "in brackets is an IPv6 address"},
      {"[::1]x:1", "give HOST:PORT"},
      {"https://host:1", "no encryption"},
      {"http://host:1/path", "give HOST:PORT"}};
  for (const auto& [text, said] : kSaid) {
    const std::string message(ReadAddress(text).status().message());
    EXPECT_THAT(message, HasSubstr("'" + text + "'"));
    EXPECT_THAT(message, HasSubstr(said));
  }
}

}  // namespace
}  // namespace steadystate::client::address_test
