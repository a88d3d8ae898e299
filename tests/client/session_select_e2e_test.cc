// Goal: sessions are listed and deleted by name, by glob, by label, or all of
// them; what was deleted is told, and one that vanishes meanwhile stops
// nothing. Method: the demo model on free ports; commands as a user types them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"

namespace steadystate::session_select_e2e_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class SessionSelectTest : public CliFixture {
 protected:
  SessionSelectTest() : CliFixture("deploy/models/demo") {}

  // The ids of the sessions that `session list` shows.
  std::string Ids(const std::string& options = "") {
    std::string ids;
    for (const auto& session : Json("session list " + options)) {
      absl::StrAppend(&ids, ids.empty() ? "" : " ",
                      session["name"].get<std::string>().substr(9));
    }
    return ids;
  }
};

TEST_F(SessionSelectTest, ByGlobByLabelAndAll) {
  for (const char* options :
       {"a1 --label user=ada --label kind=chat", "a2 --label user=ada",
        "b1 --label kind=chat", "b2"}) {
    Print(absl::StrCat("session create --id ", options));
  }
  EXPECT_EQ(Ids("--match 'a*'"), "a1 a2");
  EXPECT_EQ(Ids("--match '?1'"), "a1 b1");
  EXPECT_EQ(Ids("--label user=ada --label kind=chat"), "a1");
  EXPECT_THAT(Print("session list --match b2"),
              StartsWith("sessions/b2  0 tokens"));

  const Outcome by_label = Run("session delete --match 'a*' --label kind=chat");
  EXPECT_EQ(by_label.code, 0);
  EXPECT_EQ(by_label.out, "sessions/a1\n");
  EXPECT_EQ(by_label.err, "1 session deleted\n");
  EXPECT_EQ(Print("session delete --match 'b?'"), "sessions/b1\nsessions/b2\n");
  EXPECT_EQ(Ids(), "a2");
  const Outcome all = Run("session delete --all");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out, "sessions/a2\n");
  const Outcome none = Run("session delete --all");
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "0 sessions deleted\n");
}

TEST_F(SessionSelectTest, NothingIsDeletedByMistake) {
  Print("session create --id a");
  EXPECT_THAT(Fail(2, "session delete"), HasSubstr("id is missing"));
  EXPECT_THAT(Fail(2, "session delete --all a"), HasSubstr("unexpected 'a'"));
  EXPECT_THAT(Fail(2, "session delete --match 'b*' a"),
              HasSubstr("unexpected 'a'"));
  EXPECT_THAT(Fail(2, "session delete --all --match a"),
              HasSubstr("leave it out"));
  EXPECT_THAT(Fail(2, "session delete --match ''"), HasSubstr("no id"));
  EXPECT_THAT(Fail(2, "session delete --label user"),
              HasSubstr("is not KEY=VALUE"));
  EXPECT_THAT(
      Fail(1, absl::StrCat("session delete --match ", std::string(200, 'a'))),
      StartsWith("error: INVALID_ARGUMENT"));
  EXPECT_EQ(Ids(), "a");
}

// The command stops in the middle of its list, since nobody reads what it says.
TEST_F(SessionSelectTest, OneThatVanishesMeanwhileStopsNothing) {
  // Lines for more than the pipe, what reads it and what writes to it hold.
  constexpr int kForks = 3;
  constexpr int kSessions = 200 * kForks;
  constexpr int kPipeBytes = 4096;
  Print("session create --id 0");
  std::vector<std::string> names;
  for (int i = 0; i < kForks; ++i) {
    const std::string forked = Print("session fork 0 --count 200");
    for (const absl::string_view name :
         absl::StrSplit(forked, '\n', absl::SkipEmpty())) {
      names.emplace_back(name);
    }
  }
  ASSERT_EQ(names.size(), kSessions);
  const std::string last = *std::max_element(names.begin(), names.end());

  const std::string fifo = directory_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int both_ends = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(both_ends, 0);
  ASSERT_EQ(fcntl(both_ends, F_SETPIPE_SZ, kPipeBytes), kPipeBytes);
  Process command(
      {"/bin/sh", "-c",
       absl::StrCat("exec ", kClient, " session delete --all --address ",
                    address_, " >", fifo)},
      directory_.path() + "/delete_log");
  std::ifstream told(fifo);
  std::string line;
  ASSERT_TRUE(std::getline(told, line));  // it has its list
  EXPECT_EQ(line, "sessions/0");
  Print("session delete " + last);
  close(both_ends);
  int count = 1;
  while (std::getline(told, line)) {
    ++count;
    EXPECT_NE(line, last);
  }
  EXPECT_EQ(count, kSessions);
  EXPECT_EQ(command.Wait(), 0);
  EXPECT_EQ(ReadWholeFile(directory_.path() + "/delete_log"),
            absl::StrCat(kSessions, " sessions deleted\n"));
  EXPECT_EQ(Ids(), "");
}

}  // namespace
}  // namespace steadystate::session_select_e2e_test
