// Goal: sessions outlive a server that ends in order, clients that never close
// included, and go on in the next one as if nothing had been; so do logged ones
// if it is killed. Of others what it had stored is there, and what was deleted
// is not. What is damaged is told. Method: the real binary on a tiny model,
// started again on the same store.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/client/process.h"
#include "tests/e2e/stored_server.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

TEST(RestartE2eTest, SessionsOutliveAServerThatEndsInOrder) {
  StoredServer server;
  server.Start();
  const std::string whole = server.Create("whole");
  const std::string parts = server.Create("parts");
  const std::string fresh = server.Create("fresh");
  const std::string expected = server.Generate(whole, "once", 40);
  std::string text = server.Generate(parts, "once", 13);
  const v1::Session before = server.Get(parts);
  // A client that never closes its stream.
  grpc::ClientContext context;
  const auto stream = server.generation().StreamStep(&context);
  server.Restart(SIGTERM);
  const v1::Session after = server.Get(parts);
  EXPECT_EQ(after.uid(), before.uid());
  EXPECT_EQ(after.position(), before.position());
  EXPECT_EQ(after.state(), v1::Session::HIBERNATED);
  text += server.Generate(parts, "", 27);
  EXPECT_EQ(text, expected);
  EXPECT_EQ(server.Get(fresh).position(), 0u);
  EXPECT_EQ(server.Count(), 3u);
}

TEST(RestartE2eTest, WhatWasAnsweredOutlivesAKill) {
  StoredServer server;
  server.Start();
  const std::string whole = server.Create("whole");
  const std::string parts = server.Create("parts");
  const std::string fresh = server.Create("fresh");
  const std::string expected = server.Generate(whole, "once upon a time", 60);
  std::string text = server.Generate(parts, "once upon a time", 13);
  while (text.size() < expected.size()) {
    server.Restart(SIGKILL);
    EXPECT_EQ(server.Get(parts).state(), v1::Session::HIBERNATED);
    EXPECT_EQ(server.Get(parts).durability(), v1::Session::LOG);
    const std::string more = server.Generate(parts, "", 10);
    ASSERT_FALSE(more.empty());
    text += more;
  }
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_EQ(server.Count(), 3u);
  EXPECT_EQ(server.Get(fresh).position(), 0u);
}

TEST(RestartE2eTest, WhatAKilledServerHadStoredIsThere) {
  StoredServer server;
  server.Start({"--hibernate_after", "1s", "--durability", "shutdown"});
  const std::string session = server.Create("stored");
  const std::string gone = server.Create("gone");
  server.Generate(session, "once", 5);
  server.Generate(gone, "once", 5);
  while (server.Get(session).state() != v1::Session::HIBERNATED) {
  }
  v1::HibernateSessionRequest hibernate;
  hibernate.set_name(gone);
  grpc::ClientContext asking;
  google::protobuf::Empty nothing;
  ASSERT_TRUE(
      server.sessions().HibernateSession(&asking, hibernate, &nothing).ok());
  EXPECT_EQ(server.Get(gone).state(), v1::Session::HIBERNATED);
  grpc::ClientContext context;
  v1::DeleteSessionRequest request;
  request.set_name(gone);
  google::protobuf::Empty empty;
  ASSERT_TRUE(server.sessions().DeleteSession(&context, request, &empty).ok());
  const uint64_t position = server.Get(session).position();
  server.Restart(SIGKILL);
  EXPECT_EQ(server.Count(), 1u);
  EXPECT_EQ(server.Get(session).position(), position);
  server.Generate(session, "", 5);
}

TEST(RestartE2eTest, AStoreThatCannotBeUsedIsToldAtTheStart) {
  StoredServer server;
  server.Start();
  Process other(server.Command({}), server.directory() + "/other-log");
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(ReadWholeFile(server.directory() + "/other-log"),
              HasSubstr("in use by another server"));
  Process wrong(server.Command({"--durability", "forever"}),
                server.directory() + "/wrong-log");
  EXPECT_EQ(wrong.Wait(), 2);
  EXPECT_THAT(ReadWholeFile(server.directory() + "/wrong-log"),
              HasSubstr("--durability"));
}

TEST(RestartE2eTest, AStoreThatIsDamagedIsLeftToTheOperator) {
  const TempDirectory directory;
  const std::string store = directory.path() + "/store";
  StoredServer server(store);
  server.Start();
  server.Generate(server.Create("whole"), "once", 5);
  // As a kill leaves it, but for a bit.
  const std::string damaged = directory.path() + "/damaged";
  std::filesystem::copy(store, damaged,
                        std::filesystem::copy_options::recursive);
  const std::string log = damaged + "/rounds/rounds-00000000000000000001";
  std::string bytes = ReadWholeFile(log);
  ASSERT_GT(bytes.size(), 100u);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(log, std::ios::binary) << bytes;
  StoredServer next(damaged);
  Process refused(next.Command({}), directory.path() + "/log");
  EXPECT_EQ(refused.Wait(), 1);
  EXPECT_THAT(ReadWholeFile(directory.path() + "/log"),
              HasSubstr("--allow_damaged_store"));
  EXPECT_EQ(ReadWholeFile(log), bytes);
  next.Start({"--allow_damaged_store"});
  EXPECT_EQ(next.Count(), 1u);
  EXPECT_THAT(next.Log(), HasSubstr("rounds of the log are lost"));
}

}  // namespace
}  // namespace steadystate
