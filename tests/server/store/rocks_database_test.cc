// Goal: what is damaged in a store is told, with what can be done; nothing is
// made worse; and a damaged snapshot is its session's loss alone. Method: files
// that are cut, changed in a byte, or removed, in every place that there is.
#include "server/store/rocks_database.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/store/rocks_store.h"
#include "server/store/written_note.h"
#include "tests/server/store/rocks_store_harness.h"

namespace steadystate::rocks_database_test {
namespace {

// A store whose database's log was written by a machine that has lost power.
class CutRocksStoreTest : public RocksStoreTest {
 protected:
  static constexpr uint64_t kSessions = 20;

  CutRocksStoreTest() { options_.calls = &calls_; }

  // So many of them are synced.
  void Write(uint64_t synced) {
    const auto store = Open();
    for (uint64_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), MakeSnapshot(i), "").ok());
      ASSERT_TRUE(i + 1 != synced || store->Sync().ok());
    }
  }
  // The database's log that has something in it.
  std::string LogPath() const {
    for (const auto& file :
         std::filesystem::directory_iterator(options_.directory)) {
      if (file.path().extension() == ".log" && file.file_size() > 0) {
        return file.path().string();
      }
    }
    return "";
  }
  void Cut(uint64_t bytes) {
    std::filesystem::resize_file(LogPath(),
                                 std::filesystem::file_size(LogPath()) - bytes);
  }
  // So many sessions are there.
  void ExpectSessions(uint64_t count) {
    const auto store = Open();
    ASSERT_TRUE(store != nullptr);
    EXPECT_EQ(List(*store).size(), count);
    for (uint64_t i = 0; i < count; ++i) {
      EXPECT_EQ(store->Read(MakeSession(i).card.uid)->snapshot,
                MakeSnapshot(i));
    }
  }

  // Everything is as it was, or is told to be damaged; true if that.
  bool ExpectNothingWrong() {
    const auto store = RocksStore::Open(options_);
    if (!store.ok()) {
      EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss)
          << store.status();
      return true;
    }
    size_t listed = 0;
    const absl::Status whole =
        (*store)->ForEach([&](const StoredSession&) { ++listed; });
    if (!whole.ok()) {
      EXPECT_EQ(whole.code(), absl::StatusCode::kDataLoss) << whole;
      return true;
    }
    EXPECT_EQ(listed, kSessions);
    bool told = false;
    for (uint64_t i = 0; i < kSessions; ++i) {
      const auto read = (*store)->Read(MakeSession(i).card.uid);
      if (read.ok()) {
        EXPECT_EQ(read->snapshot, MakeSnapshot(i));
      } else {
        EXPECT_EQ(GetErrorDetails(read.status())->reason,
                  ErrorReason::kSnapshotCorrupt);
        told = true;
      }
    }
    return told;
  }

  PowerCalls calls_;
};

TEST_F(CutRocksStoreTest, ALossOfPowerCostsWhatWasNotSynced) {
  Write(/*synced=*/kSessions - 1);
  Cut(37);
  std::ofstream(LogPath(), std::ios::binary | std::ios::app)
      << std::string(4096, '\0');
  ++calls_.boot;
  ExpectSessions(kSessions - 1);
  ExpectSessions(kSessions - 1);
}

TEST_F(CutRocksStoreTest, WhatIsLostElseIsTold) {
  for (const bool power_lost : {false, true}) {
    std::filesystem::remove_all(options_.directory);
    Write(/*synced=*/power_lost ? kSessions : 0);
    if (power_lost) ++calls_.boot;
    // One bit, in the middle.
    const std::string log = TextOf(LogPath());
    std::string bytes = log;
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    std::ofstream(LogPath(), std::ios::binary) << bytes;
    for (int opened = 0; opened < 2; ++opened) {
      const auto store = RocksStore::Open(options_);
      ASSERT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_TRUE(
          absl::StrContains(store.status().message(), "--allow_damaged_store"))
          << store.status();
    }
    // Nothing was made worse.
    EXPECT_EQ(TextOf(LogPath()), bytes);
    std::ofstream(LogPath(), std::ios::binary) << log;
    ExpectSessions(kSessions);
  }
}

TEST_F(CutRocksStoreTest, WhatIsLostCanBeGivenUp) {
  Write(/*synced=*/kSessions);
  Cut(37);
  EXPECT_EQ(RocksStore::Open(options_).status().code(),
            absl::StatusCode::kDataLoss);
  options_.allow_damage = true;
  ExpectSessions(kSessions - 1);
  options_.allow_damage = false;
  ++calls_.boot;
  ExpectSessions(kSessions - 1);
}

// The database takes a manifest that is shorter for one of earlier, and removes
// the files that the rest of it lists. A copy of a store that is open is what a
// kill leaves.
TEST_F(CutRocksStoreTest, AManifestThatIsShorterIsTold) {
  Write(/*synced=*/kSessions);
  ExpectSessions(kSessions);  // from now on they are in tables
  const std::string ended = options_.directory;
  const std::string killed = ended + "-killed";
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put(MakeSession(0), MakeSnapshot(0), "").ok());
    std::filesystem::copy(ended, killed,
                          std::filesystem::copy_options::recursive);
  }
  for (const std::string& directory : {ended, killed}) {
    options_.directory = directory;
    std::string current = TextOf(directory + "/CURRENT");
    current.pop_back();
    const std::string manifest = absl::StrCat(directory, "/", current);
    const std::string bytes = TextOf(manifest);
    for (size_t size = 0; size < bytes.size(); size += 1 + size / 10) {
      std::ofstream(manifest, std::ios::binary) << bytes.substr(0, size);
      const auto store = RocksStore::Open(options_);
      ASSERT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << size;
      EXPECT_TRUE(absl::StrContains(store.status().message(), current));
      ++calls_.boot;
    }
    std::ofstream(manifest, std::ios::binary)
        << bytes.substr(0, bytes.size() - 1);
    EXPECT_EQ(RocksStore::Open(options_).status().code(),
              absl::StatusCode::kDataLoss);
    const std::string whole = directory + "-whole";
    std::filesystem::copy(directory, whole,
                          std::filesystem::copy_options::recursive);
    options_.allow_damage = true;
    EXPECT_TRUE(Open() != nullptr);
    options_.allow_damage = false;
    EXPECT_TRUE(Open() != nullptr);
    // Nothing had been made worse.
    options_.directory = whole;
    std::ofstream(absl::StrCat(whole, "/", current), std::ios::binary) << bytes;
    ExpectSessions(kSessions);
  }
}

// Of which an earlier server has told nothing.
TEST_F(CutRocksStoreTest, ANoteWithoutTheManifestIsRead) {
  Write(/*synced=*/kSessions);
  const std::string note = options_.directory + "/WRITTEN";
  const std::string bytes = TextOf(note);
  ASSERT_EQ(bytes.size(), 56u);
  std::filesystem::resize_file(note, 36);
  Cut(37);
  EXPECT_EQ(RocksStore::Open(options_).status().code(),
            absl::StatusCode::kDataLoss);
  // Nor does one that is damaged, as any other.
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += 31) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    std::ofstream(note, std::ios::binary) << damaged;
    EXPECT_FALSE(WrittenNote(note, calls_).Read().has_value()) << bit;
  }
  std::filesystem::remove(note);
  ExpectSessions(kSessions - 1);
}

// Which is not the last: what comes after it is there.
TEST_F(CutRocksStoreTest, AnEarlierLogThatIsMissingOrCutIsTold) {
  {
    const auto store = Open();
    for (uint64_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), MakeSnapshot(i), "").ok());
    }
    // Until another log is begun, since these are in tables.
    const std::string large(size_t{1} << 20, 'x');
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(kSessions), large, "").ok());
    }
    ASSERT_TRUE(store->Sync().ok());
    ASSERT_TRUE(store->Put(MakeSession(kSessions), "small", "").ok());
  }
  std::set<std::string> logs;
  for (const auto& file :
       std::filesystem::directory_iterator(options_.directory)) {
    if (file.path().extension() == ".log") logs.insert(file.path());
  }
  ASSERT_EQ(logs.size(), 2u);
  const std::string earlier = *logs.begin();
  const std::string bytes = TextOf(earlier);
  for (const size_t left : {bytes.size(), bytes.size() - 1, size_t{0}}) {
    if (left == bytes.size()) {
      std::filesystem::remove(earlier);
    } else {
      std::ofstream(earlier, std::ios::binary) << bytes.substr(0, left);
    }
    for (int power_lost = 0; power_lost < 2; ++power_lost, ++calls_.boot) {
      const auto store = RocksStore::Open(options_);
      ASSERT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_TRUE(
          absl::StrContains(store.status().message(), "--allow_damaged_store"))
          << store.status();
    }
    std::ofstream(earlier, std::ios::binary) << bytes;
  }
  const std::string whole = options_.directory + "-whole";
  std::filesystem::copy(options_.directory, whole,
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(List(*Open()).size(), kSessions + 1);
  std::filesystem::remove_all(options_.directory);
  std::filesystem::rename(whole, options_.directory);
  std::filesystem::remove(earlier);
  options_.allow_damage = true;
  EXPECT_EQ(List(*Open()).size(), 1u);
  options_.allow_damage = false;
  EXPECT_EQ(List(*Open()).size(), 1u);
}

TEST_F(CutRocksStoreTest, AFormatThatIsMissingIsToldAndCanBeWrittenAnew) {
  Write(/*synced=*/kSessions);
  const std::string format = options_.directory + "/FORMAT";
  const std::string bytes = TextOf(format);
  for (const bool there : {false, true}) {
    if (there) {
      std::ofstream(format) << std::string(bytes.size(), '\0');
    } else {
      std::filesystem::remove(format);
    }
    const absl::Status told = RocksStore::Open(options_).status();
    EXPECT_EQ(told.code(), absl::StatusCode::kDataLoss) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "FORMAT")) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), "--allow_damaged_store"));
    // Which takes no option that would let it go on.
    EXPECT_TRUE(RocksStore::Check(options_.directory).ok());
    EXPECT_EQ(std::filesystem::exists(format), there);
    options_.allow_damage = true;
    ExpectSessions(kSessions);
    options_.allow_damage = false;
    EXPECT_EQ(TextOf(format), bytes);
    ExpectSessions(kSessions);
  }
}

TEST_F(CutRocksStoreTest, ADatabaseThatIsGoneIsNotBegunAnew) {
  Write(/*synced=*/0);
  std::filesystem::remove(options_.directory + "/CURRENT");
  EXPECT_EQ(RocksStore::Open(options_).status().code(),
            absl::StatusCode::kDataLoss);
  options_.allow_damage = true;
  ExpectSessions(kSessions);
  options_.allow_damage = false;
  ExpectSessions(kSessions);
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.directory)) {
    const std::string name = entry.path().filename().string();
    if (name == "CURRENT" || absl::StartsWith(name, "MANIFEST-")) {
      std::filesystem::remove(entry.path());
    }
  }
  options_.allow_damage = true;
  EXPECT_EQ(RocksStore::Open(options_).status().code(),
            absl::StatusCode::kDataLoss);
}

// Wherever its tables are damaged: the database cannot be opened, or a list not
// be read, or a session has lost its snapshot, or nothing is lost.
TEST_F(CutRocksStoreTest, TablesThatAreDamagedAreTold) {
  Write(/*synced=*/kSessions);
  ExpectSessions(kSessions);  // from now on they are in tables
  std::vector<std::string> tables;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.directory)) {
    if (entry.path().extension() == ".sst") tables.push_back(entry.path());
  }
  ASSERT_FALSE(tables.empty());
  const std::string whole = options_.directory + "-whole";
  std::filesystem::copy(options_.directory, whole,
                        std::filesystem::copy_options::recursive);
  size_t told = 0;
  for (const std::string& table : tables) {
    const std::string bytes = TextOf(table);
    for (size_t where = 0; where <= 8; ++where) {
      std::filesystem::remove_all(options_.directory);
      std::filesystem::copy(whole, options_.directory,
                            std::filesystem::copy_options::recursive);
      std::string damaged = bytes;
      if (where < 8) {
        char& byte = damaged[damaged.size() * where / 8];
        byte = static_cast<char>(~byte);
        std::ofstream(table, std::ios::binary) << damaged;
      } else {
        std::filesystem::remove(table);
      }
      for (const bool allow : {false, true}) {
        options_.allow_damage = allow;
        told += ExpectNothingWrong();
      }
    }
  }
  EXPECT_GE(told, 4 * tables.size());
}

// The database looks at its files of snapshots when these are wanted.
TEST_F(RocksStoreTest, WhatHasNoFileAnyMoreIsLostAndNotTriedAgain) {
  Open()->Put(MakeSession(1), MakeSnapshot(1), "").IgnoreError();
  Open().reset();
  size_t removed = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.directory)) {
    if (entry.path().extension() != ".blob") continue;
    std::filesystem::remove(entry.path());
    ++removed;
  }
  ASSERT_EQ(removed, 1u);
  const auto store = Open();
  EXPECT_EQ(List(*store).size(), 1u);
  const auto lost = store->Read(MakeSession(1).card.uid);
  EXPECT_EQ(GetErrorDetails(lost.status())->reason,
            ErrorReason::kSnapshotCorrupt)
      << lost.status();
}

// What is open can be read still, for instance to export it.
TEST_F(RocksStoreTest, ADirectoryThatIsTakenAwayIsToldUntilItIsBack) {
  const auto store = Open();
  const std::string elsewhere = options_.directory + "-elsewhere";
  ASSERT_TRUE(store->Put(MakeSession(1), MakeSnapshot(1), "").ok());
  std::filesystem::rename(options_.directory, elsewhere);
  const absl::Status put = store->Put(MakeSession(2), MakeSnapshot(2), "");
  EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable) << put;
  EXPECT_TRUE(absl::StrContains(put.message(), options_.directory)) << put;
  EXPECT_FALSE(store->Sync().ok());
  EXPECT_EQ(store->Read(MakeSession(1).card.uid)->snapshot, MakeSnapshot(1));
  std::filesystem::rename(elsewhere, options_.directory);
  EXPECT_TRUE(store->Put(MakeSession(2), MakeSnapshot(2), "").ok());
}

// The database has files of the same names there, and at its end it removes
// those that it does not know.
TEST_F(RocksStoreTest, AnotherStoreInItsPlaceIsLeftAlone) {
  const std::string elsewhere = options_.directory + "-elsewhere";
  options_.snapshot_file_bytes = 30'000;
  const std::string large(40'000, 'x');
  auto store = Open();
  ASSERT_TRUE(store->Put(MakeSession(1), MakeSnapshot(1), "").ok());
  ASSERT_TRUE(store->Put(MakeSession(2), large, "").ok());
  ASSERT_TRUE(store->AppendRound(1, "round").ok());
  std::filesystem::rename(options_.directory, elsewhere);
  const std::string directory = options_.directory;
  options_.directory += "-other";
  for (uint64_t i = 1; i <= 3; ++i) {
    const auto other = Open();
    ASSERT_TRUE(other->Put(MakeSession(i), MakeSnapshot(i), "").ok());
    ASSERT_TRUE(other->Put(MakeSession(7), large, "").ok());
    ASSERT_TRUE(other->AppendRound(i, "other").ok());
  }
  std::filesystem::rename(options_.directory, directory);
  options_.directory = directory;
  const auto files_there = [this] {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(options_.directory)) {
      if (entry.is_regular_file()) files[entry.path()] = TextOf(entry.path());
    }
    return files;
  };
  const auto before = files_there();
  const SessionUid gone[] = {MakeSession(2).card.uid};
  for (const absl::Status& status :
       {store->Put(MakeSession(1), MakeSnapshot(1), ""),
        store->Put(MakeSession(2), large, ""), store->Remove(gone),
        store->Sync(), store->Try(large), store->SyncRounds(),
        store->AppendRound(2, "round"), store->DropRounds(2),
        store->Read(gone[0]).status()}) {
    EXPECT_EQ(GetErrorDetails(status)->reason, ErrorReason::kStoreUnavailable)
        << status;
  }
  store.reset();
  EXPECT_EQ(files_there(), before);
  EXPECT_EQ(List(*Open()).size(), 4u);
  options_.directory = elsewhere;
  store = Open();
  EXPECT_EQ(store->Read(gone[0])->snapshot, large);
  EXPECT_EQ(store->Read(MakeSession(1).card.uid)->snapshot, MakeSnapshot(1));
}

TEST_F(RocksStoreTest, AStoreThatAnotherServerMayHaveIsNotWritten) {
  const auto store = Open();
  ASSERT_TRUE(store->Put(MakeSession(1), MakeSnapshot(1), "").ok());
  ASSERT_TRUE(store->AppendRound(1, "round").ok());
  std::filesystem::remove(options_.directory + "/LOCK");
  const absl::Status put = store->Put(MakeSession(2), MakeSnapshot(2), "");
  EXPECT_EQ(put.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(put.message(), "/LOCK")) << put;
  EXPECT_FALSE(store->SyncRounds().ok());
  EXPECT_FALSE(store->AppendRound(2, "round").ok());
}

// The database reads old snapshots when it frees the room of those that were
// replaced.
TEST_F(RocksStoreTest, ADamagedSnapshotStopsNoOther) {
  constexpr uint64_t kSessions = 100;
  constexpr uint64_t kDamaged = 37;
  constexpr size_t kBytes = 200'000;
  const auto snapshot_of = [](uint64_t i, uint64_t turn) {
    return MakeSnapshot(i, turn) + std::string(kBytes, static_cast<char>(i));
  };
  {
    const auto store = Open();
    for (uint64_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), snapshot_of(i, 0), "").ok());
    }
  }
  Open().reset();  // now they are in files of snapshots
  const std::string marked(1000, static_cast<char>(kDamaged));
  size_t damaged = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.directory)) {
    if (entry.path().extension() != ".blob") continue;
    std::string bytes = TextOf(entry.path());
    const size_t at = bytes.find(marked);
    if (at == std::string::npos) continue;
    ++damaged;
    bytes[at + 500] = static_cast<char>(~bytes[at + 500]);
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  ASSERT_EQ(damaged, 1u);
  const auto store = Open();
  EXPECT_EQ(List(*store).size(), kSessions);
  // Whoever writes when it is met is told to try again, and that helps.
  int failures = 0;
  const auto put = [&](uint64_t i, uint64_t version) {
    absl::Status status;
    for (bool failed = false;; std::this_thread::yield()) {
      status = store->Put(MakeSession(i), snapshot_of(i, version), "");
      if (!absl::IsUnavailable(status)) break;
      if (!std::exchange(failed, true)) ++failures;
    }
    EXPECT_TRUE(status.ok()) << status;
  };
  uint64_t turn = 1;
  for (; turn <= 20; ++turn) {
    for (uint64_t i = 0; i < kSessions; ++i) {
      if (i != kDamaged) put(i, turn);
    }
  }
  EXPECT_LE(failures, 1);
  EXPECT_EQ(List(*store).size(), kSessions);
  for (uint64_t i = 0; i < kSessions; ++i) {
    const auto read = store->Read(MakeSession(i).card.uid);
    if (i == kDamaged) {
      EXPECT_EQ(GetErrorDetails(read.status())->reason,
                ErrorReason::kSnapshotCorrupt);
    } else {
      EXPECT_EQ(read->snapshot, snapshot_of(i, turn - 1));
    }
  }
}

// What lies there of sessions that are gone is read by compactions alone.
TEST_F(RocksStoreTest, DamageThatIsNoSessionsStopsNoneOfThem) {
  constexpr uint64_t kSessions = 100;
  constexpr uint64_t kGone = 90;
  // Such as is not compressed.
  const auto noise_of = [](uint64_t i) {
    std::mt19937_64 random(i);
    std::string bytes(1000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  {
    const auto store = Open();
    for (uint64_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), noise_of(i), "").ok());
    }
  }
  Open().reset();  // now they are in tables
  size_t damaged = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.directory)) {
    if (entry.path().extension() != ".sst") continue;
    std::string bytes = TextOf(entry.path());
    const size_t at = bytes.find(noise_of(7));
    if (at == std::string::npos) continue;
    ++damaged;
    bytes[at + 50] = static_cast<char>(~bytes[at + 50]);
    std::ofstream(entry.path(), std::ios::binary) << bytes;
  }
  ASSERT_EQ(damaged, 1u);
  const auto store = Open();
  for (uint64_t i = 0; i < kGone; ++i) {
    const SessionUid uid = MakeSession(i).card.uid;
    ASSERT_TRUE(store->Remove({&uid, 1}).ok());
  }
  int failures = 0;
  for (uint64_t turn = 1; turn <= 40; ++turn) {
    for (uint64_t i = kGone; i < kSessions; ++i) {
      const std::string snapshot =
          MakeSnapshot(i, turn) + std::string(500'000, static_cast<char>(i));
      absl::Status status;
      for (bool failed = false;; std::this_thread::yield()) {
        status = store->Put(MakeSession(i), snapshot, "");
        if (!absl::IsUnavailable(status)) break;
        if (!std::exchange(failed, true)) ++failures;
      }
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  EXPECT_LE(failures, 2);
  EXPECT_EQ(List(*store).size(), kSessions - kGone);
  for (uint64_t i = kGone; i < kSessions; ++i) {
    EXPECT_EQ(store->Read(MakeSession(i).card.uid)->snapshot,
              MakeSnapshot(i, 40) + std::string(500'000, static_cast<char>(i)));
  }
}

}  // namespace
}  // namespace steadystate::rocks_database_test
