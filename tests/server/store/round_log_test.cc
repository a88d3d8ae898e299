// Goal: what was appended is read again, up to the last whole round, whatever a
// crash or a disk that fails has left; what is damaged is told, and not taken
// for the end; files that nobody needs go. Method: a directory of its own,
// files cut at each byte and flipped in each bit, system calls that fail, and a
// machine that starts anew, when they are told to.
#include "server/store/round_log.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::round_log_test {
namespace {

using Rounds = std::vector<std::pair<uint64_t, std::string>>;

// Of a disk that has room for so many bytes, and then for a part of a write.
class SmallDisk final : public FileCalls {
 public:
  ssize_t Write(int file, const char* bytes, size_t count) override {
    if (left == 0) {
      errno = ENOSPC;
      return -1;
    }
    const size_t fits = std::min(count, left);
    left -= fits;
    return FileCalls::Write(file, bytes, fits);
  }
  int Sync(int file) override {
    ++syncs;
    if (!fails_syncs) return FileCalls::Sync(file);
    errno = EIO;
    return -1;
  }
  ssize_t ReadAt(int file, char* to, size_t count, off_t at) override {
    const auto from = static_cast<size_t>(at);
    if (from < bad_end && from + count > bad_begin) {
      errno = EIO;
      return -1;
    }
    return FileCalls::ReadAt(file, to, count, at);
  }
  int Create(const char* path) override {
    const bool is_list = absl::EndsWith(path, "/FILES.part");
    if (!(is_list ? fails_lists : fails_creates)) {
      return FileCalls::Create(path);
    }
    errno = EIO;
    return -1;
  }
  uint64_t Boot() override { return boot; }
  int Truncate(int file, off_t size) override {
    if (!fails_truncates) return FileCalls::Truncate(file, size);
    errno = EIO;
    return -1;
  }

  size_t left = SIZE_MAX;
  size_t syncs = 0;
  bool fails_syncs = false;
  bool fails_truncates = false;
  bool fails_creates = false;  // of files of rounds
  bool fails_lists = false;
  // Sectors that cannot be read, in every file.
  size_t bad_begin = 0;
  size_t bad_end = 0;
  uint64_t boot = 1;
};

class RoundLogTest : public testing::Test {
 protected:
  std::unique_ptr<RoundLog> Open(uint64_t file_bytes = RoundLog::kFileBytes) {
    auto log = RoundLog::Open({.directory = Directory(),
                               .calls = &disk_,
                               .file_bytes = file_bytes,
                               .allow_damage = allow_damage_});
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }
  std::string Directory() const { return directory_.path() + "/rounds"; }

  static Rounds Read(const RoundLog& log) {
    Rounds rounds;
    EXPECT_TRUE(
        log.ForEach(0,
                    [&rounds](uint64_t round, absl::string_view content) {
                      rounds.emplace_back(round, std::string(content));
                    })
            .ok());
    return rounds;
  }
  Rounds Reopened() { return Read(*Open()); }
  // What another process is told when it opens and reads the log.
  absl::Status Reading() {
    const auto log = RoundLog::Open({.directory = Directory(),
                                     .calls = &disk_,
                                     .allow_damage = allow_damage_});
    if (!log.ok()) return log.status();
    return (*log)->ForEach(0, [](uint64_t, auto) {});
  }

  // Rounds of one size, in one file; so many of them are synced.
  std::filesystem::path WriteThreeRounds(uint64_t synced = 0) {
    const auto log = Open();
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_TRUE(log->Append(i, "four").ok());
      EXPECT_TRUE(i != synced || log->Sync().ok());
    }
    return Files().front();
  }

  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(Directory())) {
      const std::string name = entry.path().filename().string();
      if (name == "WRITTEN" || name == "FILES") continue;
      files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static std::string Bytes(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void SetBytes(const std::filesystem::path& path,
                       const std::string& bytes) {
    // Not from an empty file on: a file system may sync that at once.
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
        << bytes;
    std::filesystem::resize_file(path, bytes.size());
  }

  const TempDirectory directory_;
  SmallDisk disk_;
  bool allow_damage_ = false;
};

TEST_F(RoundLogTest, RoundsAreReadInTheirOrder) {
  Rounds expected;
  {
    const auto log = Open(/*file_bytes=*/200);
    for (uint64_t i = 1; i <= 40; ++i) {
      // Numbers may be left out; the last round is longer than a file.
      expected.emplace_back(3 * i, std::string(i == 40 ? 500 : i, 'x'));
      ASSERT_TRUE(log->Append(3 * i, expected.back().second).ok());
    }
    EXPECT_GT(Files().size(), 5u);
    uint64_t size = 0;
    for (const auto& file : Files()) size += std::filesystem::file_size(file);
    EXPECT_EQ(log->bytes(), size);
  }
  EXPECT_EQ(Reopened(), expected);
  // And once more, with others after them.
  ASSERT_TRUE(Open()->Append(200, "later").ok());
  expected.emplace_back(200, "later");
  EXPECT_EQ(Reopened(), expected);
}

TEST_F(RoundLogTest, RoundsAreReadWhileOthersAreWritten) {
  const auto log = Open(/*file_bytes=*/200);
  for (uint64_t i = 1; i <= 20; ++i) {
    ASSERT_TRUE(log->Append(i, std::string(30, 'x')).ok());
    for (uint64_t from = 0; from <= i; ++from) {
      uint64_t next = std::max<uint64_t>(from, 1);
      EXPECT_TRUE(
          log->ForEach(from,
                       [&next](uint64_t round, absl::string_view content) {
                         EXPECT_EQ(content.size(), 30u);
                         if (round == next) ++next;
                       })
              .ok());
      EXPECT_EQ(next, i + 1) << from;
    }
  }
  EXPECT_GT(Files().size(), 3u);
}

TEST_F(RoundLogTest, AWriteThatAKillHasCutIsNoRound) {
  const std::filesystem::path file = WriteThreeRounds();
  const std::string whole = Bytes(file);
  for (size_t size = 0; size <= whole.size(); ++size) {
    SetBytes(file, whole + whole.substr(0, size));
    const size_t more = 3 * size / whole.size();
    ASSERT_EQ(Reopened().size(), 3 + more) << size;
  }
}

TEST_F(RoundLogTest, ALossOfPowerCostsWhatWasNotSyncedAndNoMore) {
  for (uint64_t synced = 0; synced <= 3; ++synced) {
    std::filesystem::remove_all(Directory());
    const std::filesystem::path file = WriteThreeRounds(synced);
    const std::string whole = Bytes(file);
    const size_t round = whole.size() / 3;
    ++disk_.boot;
    // What comes instead: nothing, pages that were never written, or what was
    // written later than what is lost.
    for (const std::string& rest : {std::string(), std::string(100, '\0'),
                                    "lost" + whole.substr(2 * round)}) {
      for (size_t size = 0; size <= whole.size(); ++size) {
        SetBytes(file, whole.substr(0, size) + rest);
        if (size < synced * round) {
          ASSERT_EQ(Reading().code(), absl::StatusCode::kDataLoss) << size;
        } else {
          ASSERT_EQ(Reopened().size(), size / round) << size;
        }
      }
    }
  }
}

TEST_F(RoundLogTest, ABitThatIsFlippedIsToldAndCostsOneRound) {
  const std::filesystem::path file = WriteThreeRounds();
  const std::string whole = Bytes(file);
  for (const bool power_lost : {false, true}) {
    if (power_lost) {
      // Then what was not synced may be anything.
      std::filesystem::remove_all(Directory());
      WriteThreeRounds(/*synced=*/3);
      ++disk_.boot;
    }
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string bytes = whole;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      SetBytes(file, bytes);
      allow_damage_ = false;
      const absl::Status read = Reading();
      ASSERT_EQ(read.code(), absl::StatusCode::kDataLoss) << bit;
      ASSERT_TRUE(absl::StrContains(read.message(), "--allow_damaged_store"));
      ASSERT_EQ(Bytes(file), bytes);
      allow_damage_ = true;
      ASSERT_EQ(Reopened().size(), 2u) << bit;
    }
  }
}

TEST_F(RoundLogTest, ADamagedFileIsNotTheEndOfTheLog) {
  {
    const auto log = Open(/*file_bytes=*/60);
    for (uint64_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(log->Append(i, std::string(20, 'a')).ok());
    }
  }
  ASSERT_EQ(Files().size(), 4u);
  SetBytes(Files()[1], "nonsense");
  ++disk_.boot;
  EXPECT_EQ(Reading().code(), absl::StatusCode::kDataLoss);
  allow_damage_ = true;
  const Rounds rounds = Reopened();
  ASSERT_EQ(rounds.size(), 3u);
  EXPECT_EQ(rounds[1].first, 3u);
}

TEST_F(RoundLogTest, AFileThatIsMissingIsTold) {
  const std::string path = Directory() + "/rounds-00000000000000000007";
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(7, "seven").ok());
    ASSERT_TRUE(log->Append(8, "eight").ok());
  }
  ASSERT_TRUE(std::filesystem::remove(path));
  const auto log = RoundLog::Open({.directory = Directory(), .calls = &disk_});
  EXPECT_EQ(log.status().code(), absl::StatusCode::kDataLoss) << log.status();
  EXPECT_TRUE(absl::StrContains(log.status().message(), path)) << log.status();
  allow_damage_ = true;
  const auto without = Open();
  EXPECT_EQ(Read(*without), Rounds());
  ASSERT_TRUE(without->Append(9, "nine").ok());
  allow_damage_ = false;
  EXPECT_EQ(Read(*Open()), (Rounds{{9, "nine"}}));
}

// A kill between the note of a file and the file itself.
TEST_F(RoundLogTest, AFileThatWasNotBegunIsNotMissed) {
  {
    const auto log = Open(1);
    ASSERT_TRUE(log->Append(1, "one").ok());
    ASSERT_TRUE(log->Append(2, "two").ok());
    disk_.fails_creates = true;
    EXPECT_FALSE(log->Append(3, "three").ok());
  }
  disk_.fails_creates = false;
  EXPECT_EQ(Read(*Open()), (Rounds{{1, "one"}, {2, "two"}}));
}

// Which is not the last: of the last one the note tells.
TEST_F(RoundLogTest, AnEarlierFileThatIsMissingOrCutIsTold) {
  {
    const auto log = Open(/*file_bytes=*/130);
    for (uint64_t i = 1; i <= 12; ++i) {
      ASSERT_TRUE(log->Append(i, std::string(20, 'a')).ok());
    }
  }
  const std::vector<std::filesystem::path> files = Files();
  ASSERT_EQ(files.size(), 4u);
  for (size_t i = 0; i < 3; ++i) {
    const std::string whole = Bytes(files[i]);
    for (size_t cut = 0; cut <= 3; ++cut) {
      // After so many rounds; and none of the file.
      if (cut == 3) {
        std::filesystem::remove(files[i]);
      } else {
        SetBytes(files[i], whole.substr(0, cut * whole.size() / 3));
      }
      for (int power_lost = 0; power_lost < 2; ++power_lost, ++disk_.boot) {
        const absl::Status read = Reading();
        ASSERT_EQ(read.code(), absl::StatusCode::kDataLoss) << cut;
        EXPECT_TRUE(absl::StrContains(read.message(), files[i].string()));
        EXPECT_TRUE(absl::StrContains(read.message(),
                                      absl::StrCat(whole.size(), " bytes")));
      }
      allow_damage_ = true;
      EXPECT_EQ(Reopened().size(), cut == 3 ? 9 : 9 + cut);
      allow_damage_ = false;
      std::ofstream(files[i], std::ios::binary) << whole;
    }
  }
  EXPECT_EQ(Reopened().size(), 12u);
}

TEST_F(RoundLogTest, WhatIsGivenUpIsNotMissedAgain) {
  {
    const auto log = Open(/*file_bytes=*/1);
    ASSERT_TRUE(log->Append(1, "one").ok());
    ASSERT_TRUE(log->Append(2, "two").ok());
  }
  for (const auto& file : Files()) std::filesystem::remove(file);
  allow_damage_ = true;
  // As a server does that has taken up what there is.
  ASSERT_TRUE(Open()->Drop(UINT64_MAX).ok());
  allow_damage_ = false;
  EXPECT_EQ(Reopened(), Rounds());
}

// By no process that ends in between, and no loss of power.
TEST_F(RoundLogTest, FilesThatAreDroppedAreNotListed) {
  {
    const auto log = Open(/*file_bytes=*/1);
    for (uint64_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(log->Append(i, "round").ok());
    }
    // The list is written before they go.
    disk_.fails_lists = true;
    ASSERT_TRUE(log->Drop(3).ok());
    EXPECT_FALSE(std::filesystem::exists(Directory() + "/FILES"));
    disk_.fails_lists = false;
    ASSERT_TRUE(log->Append(5, "round").ok());
    disk_.fails_syncs = true;
    EXPECT_EQ(log->Drop(4).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Files().size(), 3u);
    disk_.fails_syncs = false;
    ASSERT_TRUE(log->Drop(4).ok());
    EXPECT_EQ(Files().size(), 2u);
  }
  EXPECT_EQ(Reopened(), (Rounds{{4, "round"}, {5, "round"}}));
  EXPECT_FALSE(std::filesystem::exists(Directory() + "/FILES.part"));
  ASSERT_TRUE(Open()->Drop(UINT64_MAX).ok());
  EXPECT_EQ(Reopened(), Rounds());
}

TEST_F(RoundLogTest, AFileIsListedBeforeTheNextIsBegun) {
  const auto log = Open(/*file_bytes=*/1);
  ASSERT_TRUE(log->Append(1, "one").ok());
  disk_.fails_lists = true;
  EXPECT_EQ(log->Append(2, "two").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Files().size(), 1u);
  disk_.fails_lists = false;
  ASSERT_TRUE(log->Append(3, "three").ok());
  EXPECT_EQ(Reopened(), (Rounds{{1, "one"}, {3, "three"}}));
}

// What its process has not synced a loss of power may take.
TEST_F(RoundLogTest, AFileOfAnotherProcessIsSyncedBeforeItIsListed) {
  ASSERT_TRUE(Open()->Append(1, "one").ok());
  const std::string first = Files().front();
  const std::string whole = Bytes(first);
  for (const bool synced : {false, true}) {
    {
      const auto log = Open();
      disk_.fails_syncs = !synced;
      EXPECT_EQ(log->Append(2, "two").ok(), synced);
      disk_.fails_syncs = false;
    }
    SetBytes(first, "");
    ++disk_.boot;
    EXPECT_EQ(Reading().ok(), !synced) << Reading();
    SetBytes(first, whole);
  }
}

TEST_F(RoundLogTest, AListThatIsGoneOrDamagedCostsNothing) {
  {
    const auto log = Open(/*file_bytes=*/1);
    ASSERT_TRUE(log->Append(1, "one").ok());
    ASSERT_TRUE(log->Append(2, "two").ok());
  }
  const std::string list = Directory() + "/FILES";
  const std::string whole = Bytes(list);
  SetBytes(list, "no list");
  ASSERT_EQ(Reopened().size(), 2u);
  std::filesystem::remove(list);
  ASSERT_EQ(Reopened().size(), 2u);
  // And the next one is written.
  ASSERT_TRUE(Open()->Append(3, "three").ok());
  EXPECT_EQ(Bytes(list).size(), whole.size() + 16);
}

// A bad sector must not end the process, nor count as the log's end.
TEST_F(RoundLogTest, WhatCannotBeReadIsToldAndCostsItsRounds) {
  {
    const auto log = Open();
    for (uint64_t i = 1; i <= 3; ++i) {
      ASSERT_TRUE(log->Append(i, std::string(8000, 'a')).ok());
    }
  }
  ++disk_.boot;
  disk_.bad_begin = 10'000;
  disk_.bad_end = 10'001;
  const absl::Status read = Reading();
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(read.message(), "Input/output error")) << read;
  allow_damage_ = true;
  EXPECT_EQ(Reopened().size(), 1u);  // nobody knows how far it was written
  disk_.boot = 1;
  const Rounds rounds = Reopened();
  ASSERT_EQ(rounds.size(), 2u);
  EXPECT_EQ(rounds[1].first, 3u);
}

TEST_F(RoundLogTest, ALogWithoutANoteEndsWithItsLastWholeRound) {
  const std::filesystem::path file = WriteThreeRounds(/*synced=*/3);
  const std::string whole = Bytes(file);
  const std::string note = Directory() + "/WRITTEN";
  for (const bool damaged : {true, false}) {
    if (damaged) {
      SetBytes(note, "what is no note");
    } else {
      std::filesystem::remove(note);
    }
    SetBytes(file, whole.substr(0, whole.size() - 1));
    EXPECT_EQ(Reopened().size(), 2u);
  }
}

// Numbers begin anew when no session is left.
TEST_F(RoundLogTest, ANoteIsOfOneFileAlone) {
  WriteThreeRounds(/*synced=*/3);
  ASSERT_TRUE(Open()->Drop(UINT64_MAX).ok());
  ASSERT_TRUE(Open()->Append(1, "a").ok());
  for (int power_lost = 0; power_lost < 2; ++power_lost, ++disk_.boot) {
    EXPECT_EQ(Reopened().size(), 1u);
  }
  // A process that ended before it made the file that it had noted.
  disk_.fails_creates = true;
  EXPECT_FALSE(Open()->Append(2, "b").ok());
  disk_.fails_creates = false;
  for (int power_lost = 0; power_lost < 2; ++power_lost, ++disk_.boot) {
    EXPECT_EQ(Reopened().size(), 1u);
  }
}

TEST_F(RoundLogTest, AFileThatCannotBeCutIsFollowedByNone) {
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(1, "first").ok());
    disk_.left = 10;
    disk_.fails_truncates = true;
    EXPECT_FALSE(log->Append(2, "second").ok());
    disk_.left = SIZE_MAX;
    EXPECT_FALSE(log->Append(3, "third").ok());
    EXPECT_EQ(Files().size(), 1u);
    EXPECT_EQ(Reopened(), (Rounds{{1, "first"}}));
    disk_.fails_truncates = false;
    ASSERT_TRUE(log->Append(4, "fourth").ok());
  }
  EXPECT_EQ(Reopened(), (Rounds{{1, "first"}, {4, "fourth"}}));
}

TEST_F(RoundLogTest, AFullDiskCostsTheRoundsThatFailed) {
  {
    const auto log = Open();
    ASSERT_TRUE(log->Append(1, "first").ok());
    disk_.left = 10;
    const absl::Status failed = log->Append(2, "second");
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(GetErrorDetails(failed)->retry_after.has_value());
    EXPECT_FALSE(log->Append(3, "third").ok());
    disk_.left = SIZE_MAX;
    ASSERT_TRUE(log->Append(4, "fourth").ok());
  }
  EXPECT_EQ(Reopened(), (Rounds{{1, "first"}, {4, "fourth"}}));
}

TEST_F(RoundLogTest, AFileThatCouldNotBeSyncedIsNotWrittenAgain) {
  const auto log = Open();
  ASSERT_TRUE(log->Append(1, "first").ok());
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Append(2, "second").ok());
  disk_.fails_syncs = true;
  EXPECT_EQ(log->Sync().code(), absl::StatusCode::kUnavailable);
  disk_.fails_syncs = false;
  ASSERT_TRUE(log->Append(3, "third").ok());
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(Reopened().size(), 3u);
}

// Bytes that nobody finds any more are synced to nothing.
TEST_F(RoundLogTest, AFileThatIsRemovedCannotBeSynced) {
  const auto log = Open();
  ASSERT_TRUE(log->Append(1, "first").ok());
  ASSERT_TRUE(log->Sync().ok());
  ASSERT_TRUE(log->Append(2, "second").ok());
  std::filesystem::remove_all(Directory());
  EXPECT_EQ(log->Sync().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(log->Append(3, "third").code(), absl::StatusCode::kUnavailable);
}

TEST_F(RoundLogTest, ADirectoryThatIsNotItsOwnIsLeftAlone) {
  const std::string elsewhere = directory_.path() + "/elsewhere";
  const auto log = Open(/*file_bytes=*/60);
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(log->Append(i, std::string(40, 'a')).ok());
  }
  std::filesystem::rename(Directory(), elsewhere);
  for (const bool other : {false, true}) {
    // With files of the same names.
    if (other) std::filesystem::copy(elsewhere, Directory());
    const absl::Status synced = log->Sync();
    EXPECT_EQ(synced.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(synced.message(), Directory())) << synced;
    EXPECT_FALSE(log->Append(4, std::string(40, 'a')).ok());
    EXPECT_FALSE(log->Drop(3).ok());
    EXPECT_FALSE(log->ForEach(0, [](uint64_t, auto) {}).ok());
  }
  EXPECT_EQ(Files().size(), 3u);
  std::filesystem::remove_all(Directory());
  std::filesystem::rename(elsewhere, Directory());
  EXPECT_EQ(Files().size(), 3u);
  ASSERT_TRUE(log->Append(5, std::string(40, 'b')).ok());
  EXPECT_TRUE(log->Sync().ok());
  EXPECT_EQ(Read(*log).size(), 4u);
  EXPECT_EQ(Reopened().size(), 4u);
  EXPECT_TRUE(log->Drop(5).ok());
  EXPECT_EQ(Reopened(), (Rounds{{5, std::string(40, 'b')}}));
}

// Also when the log's own is where it was.
TEST_F(RoundLogTest, AStoreThatIsNotItsOwnIsLeftAlone) {
  std::filesystem::create_directory(directory_.path() + "/store");
  HeldDirectory store(directory_.path() + "/store");
  ASSERT_TRUE(store.Hold().ok());
  const auto log = RoundLog::Open(
      {.directory = Directory(), .calls = &disk_, .store = &store});
  ASSERT_TRUE((*log)->Append(1, "one").ok());
  ASSERT_TRUE((*log)->Sync().ok());
  std::filesystem::remove(directory_.path() + "/store");
  EXPECT_FALSE((*log)->Sync().ok());
  EXPECT_FALSE((*log)->Append(2, "two").ok());
}

TEST_F(RoundLogTest, ADiskThatStaysFullIsNotFilledWithFiles) {
  const auto log = Open();
  ASSERT_TRUE(log->Append(1, "first").ok());
  disk_.left = 0;
  for (uint64_t i = 2; i < 10; ++i) EXPECT_FALSE(log->Append(i, "more").ok());
  EXPECT_EQ(Files().size(), 1u);
}

TEST_F(RoundLogTest, AFileIsSyncedBeforeTheNextIsBegun) {
  const auto log = Open(/*file_bytes=*/60);
  ASSERT_TRUE(log->Append(1, std::string(40, 'a')).ok());
  const size_t syncs = disk_.syncs;
  disk_.fails_syncs = true;
  EXPECT_FALSE(log->Append(2, std::string(40, 'a')).ok());
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(disk_.syncs, syncs + 1);
}

TEST_F(RoundLogTest, FilesThatNobodyNeedsAreRemoved) {
  const auto log = Open(/*file_bytes=*/60);
  for (uint64_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(log->Append(10 * i, std::string(40, 'a')).ok());
  }
  // The first may have rounds up to 19.
  EXPECT_FALSE(log->CanDrop(19));
  EXPECT_TRUE(log->CanDrop(20));
  ASSERT_TRUE(log->Drop(39).ok());
  EXPECT_EQ(Files().size(), 3u);
  // The one that is written stays.
  ASSERT_TRUE(log->Drop(UINT64_MAX).ok());
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(Reopened(), (Rounds{{50, std::string(40, 'a')}}));
  // Of a log that has been opened only, all go.
  const auto next = Open();
  ASSERT_TRUE(next->Drop(UINT64_MAX).ok());
  EXPECT_TRUE(Files().empty());
}

TEST_F(RoundLogTest, ALogThatCannotBeMadeIsToldSo) {
  const auto log =
      RoundLog::Open({.directory = directory_.path() + "/no/such/place"});
  EXPECT_EQ(log.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace steadystate::round_log_test
