// Goal: sessions outlive a server that ends in order, clients that never close
// included, and go on in the next one as if nothing had been; so do logged ones
// if it is killed. Of others what it had stored is there, and what was deleted
// is not. What is damaged is told. Method: the real binary on a tiny model,
// started again on the same store.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "gtest/gtest.h"
#include "tests/client/process.h"
#include "tests/e2e/stored_server.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::restart_e2e_test {
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
  // Before the model is looked for, which may take minutes to load.
  std::vector<std::string> command = server.Command({});
  *std::next(std::find(command.begin(), command.end(), "--model")) =
      server.directory();
  Process unloaded(command, server.directory() + "/unloaded-log");
  EXPECT_EQ(unloaded.Wait(), 1);
  EXPECT_THAT(ReadWholeFile(server.directory() + "/unloaded-log"),
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
  // A thread of its own writes the log, whole when the server has ended.
  next.End();
  EXPECT_THAT(next.Log(), HasSubstr("rounds of the log are lost"));
}

// Changes a byte of the session's snapshot, somewhere behind its id.
void DamageSnapshot(const std::string& store, const std::string& id) {
  size_t damaged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(store)) {
    if (entry.path().extension() != ".blob") continue;
    std::string bytes = ReadWholeFile(entry.path());
    for (size_t at = bytes.find(id); at != std::string::npos;
         at = bytes.find(id, at + 1), ++damaged) {
      bytes[at + 1000] = static_cast<char>(bytes[at + 1000] ^ 1);
    }
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  ASSERT_GT(damaged, 0u);
}

TEST(RestartE2eTest, ADamagedSnapshotIsItsSessionsLossAlone) {
  const TempDirectory directory;
  const std::string store = directory.path() + "/store";
  StoredServer server(store);
  server.Start();
  for (const char* const id : {"the-damaged-one", "whole"}) {
    // With so much to remember a snapshot has a place of its own.
    server.Generate(server.Create(id), std::string(2000, 'a'), 5);
  }
  server.Restart(SIGTERM);  // which moves them from the database's log
  server.End();
  DamageSnapshot(store, "the-damaged-one");
  server.Start({"--drain_budget", "10m"});
  std::string text;
  const grpc::Status refused = server.GenerateOnce(
      "sessions/the-damaged-one",
      server.Get("sessions/the-damaged-one").position(), "", 1, text);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::DATA_LOSS)
      << refused.error_message();
  EXPECT_EQ(server.Get("sessions/the-damaged-one").unusable(),
            "SNAPSHOT_CORRUPT");
  EXPECT_EQ(server.Get("sessions/whole").unusable(), "");
  server.Generate("sessions/whole", "", 5);
  // Long before the test would be given up.
  server.End();
  EXPECT_THAT(server.Log(),
              testing::ContainsRegex(
                  "stored session is damaged.*session=\"?the-damaged-one"));
  EXPECT_THAT(server.Log(), HasSubstr("sessions stored"));
}

TEST(RestartE2eTest, WhatOtherNumericsAdvancedIsToldAtTheStart) {
  StoredServer server;
  server.Start({"--prefill_chunk_rows", "16"});
  const std::string session = server.Create("of-another");
  server.Generate(session, "once", 5);
  server.Restart(SIGTERM, {"--prefill_chunk_rows", "16"});
  server.Generate(session, "", 5);
  server.Restart(SIGKILL, {"--prefill_chunk_rows", "32"});
  // Nobody has asked for the session.
  server.End();
  EXPECT_THAT(server.Log(), HasSubstr("NUMERICS_MISMATCH"));
  EXPECT_THAT(server.Log(), HasSubstr("prefill_rows=16 (here 32)"));
  server.Start({"--prefill_chunk_rows", "32"});
  EXPECT_EQ(server.Get(session).unusable(), "NUMERICS_MISMATCH");
  // As is advised.
  server.Restart(SIGTERM, {"--prefill_chunk_rows", "16"});
  EXPECT_EQ(server.Get(session).unusable(), "");
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_name(session);
  request.set_state_norms(true);
  v1::Session norms;
  ASSERT_TRUE(server.sessions().GetSession(&context, request, &norms).ok());
  server.Restart(SIGTERM, {"--prefill_chunk_rows", "32"});
  server.Generate(session, "", 5);
  EXPECT_TRUE(server.Get(session).other_numerics());
}

}  // namespace
}  // namespace steadystate::restart_e2e_test
