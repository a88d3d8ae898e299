// Goal: what people write for an address is understood, or answered with the
// form to use. Method: tables.
#include "client/cli/address.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client {
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
      {"https://host:1", "no encryption"},
      {"http://host:1/path", "give HOST:PORT"}};
  for (const auto& [text, said] : kSaid) {
    const std::string message(ReadAddress(text).status().message());
    EXPECT_THAT(message, HasSubstr("'" + text + "'"));
    EXPECT_THAT(message, HasSubstr(said));
  }
}

}  // namespace
}  // namespace steadystate::client
