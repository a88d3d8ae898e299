// Goal: what was put into the store is there until it is removed: after it is
// closed, after its process was killed, after a disk that failed works again;
// and a directory that is not this model's store is left alone. Method: a store
// in a fresh directory; a process that is killed while it writes; a file system
// that fails when it is told to; files that are cut.
#include "server/store/rocks_store.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/store/rocks_options.h"
#include "tests/server/store/faulty_file_system.h"
#include "tests/server/store/rocks_store_harness.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::rocks_store_test {
namespace {

TEST_F(RocksStoreTest, WhatWasPutIsThereWhenItIsOpenedAgain) {
  {
    const auto store = Open();
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), MakeSnapshot(i), "tail").ok());
    }
    ASSERT_TRUE(store->Put(MakeSession(4), MakeSnapshot(4, 1), "tail").ok());
    const SessionUid gone[] = {MakeSession(7).card.uid,
                               MakeSession(99).card.uid};
    ASSERT_TRUE(store->Remove(gone).ok());
    ASSERT_TRUE(store->Sync().ok());
    EXPECT_EQ(List(*store).size(), 9u);
  }
  const auto store = Open();
  const ById listed = List(*store);
  ASSERT_EQ(listed.size(), 9u);
  EXPECT_FALSE(listed.contains("s7"));
  for (uint64_t i = 0; i < 10; ++i) {
    if (i == 7) continue;
    const StoredSession expected = MakeSession(i);
    const StoredSession& found = listed.at(expected.card.id);
    EXPECT_EQ(found.card.uid, expected.card.uid);
    EXPECT_EQ(found.card.owner, expected.card.owner);
    EXPECT_EQ(found.card.labels, expected.card.labels);
    EXPECT_EQ(found.card.ttl, expected.card.ttl);
    EXPECT_EQ(found.card.create_time, expected.card.create_time);
    EXPECT_EQ(found.card.last_step_time, expected.card.last_step_time);
    EXPECT_EQ(found.position, expected.position);
    EXPECT_EQ(found.other_numerics, expected.other_numerics);
    EXPECT_EQ(found.taken_back, expected.taken_back);
    EXPECT_EQ(found.durability, expected.durability);
    EXPECT_EQ(found.round, expected.round);
    EXPECT_EQ(found.repeatable_from, expected.repeatable_from);
    EXPECT_EQ(found.prefix, expected.prefix);
    ExpectSame(found.tail, expected.tail);
    EXPECT_EQ(store->Read(expected.card.uid)->snapshot,
              MakeSnapshot(i, i == 4));
  }
  EXPECT_EQ(store->Read(MakeSession(7).card.uid).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(RocksStoreTest, TryingItLeavesNothing) {
  const auto bytes_on_disk = [&] {
    uintmax_t bytes = 0;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(options_.directory)) {
      if (entry.is_regular_file()) bytes += entry.file_size();
    }
    return bytes;
  };
  const auto store = Open();
  const uintmax_t before = bytes_on_disk();
  for (const size_t size : {size_t{1} << 20, size_t{5} << 20}) {
    EXPECT_TRUE(store->Try(std::string(size, 'x')).ok());
    EXPECT_EQ(bytes_on_disk(), before);
  }
  EXPECT_TRUE(List(*store).empty());
}

TEST_F(RocksStoreTest, ADirectoryThatIsNotThisModelsStoreIsLeftAlone) {
  Open();
  const std::string format = options_.directory + "/FORMAT";
  // As another version has it, which would refuse what this one makes of it.
  const std::string other_version = "store 2\nrocksdb 7 0\n";
  std::ofstream(format) << other_version;
  options_.fingerprint = "beef";
  EXPECT_TRUE(absl::StrContains(Refusal(), "has the sessions of model 'tiny'"));
  EXPECT_EQ(TextOf(format), other_version);
  options_.fingerprint = "f00d";
  {
    const auto store = Open();
    std::ofstream(format) << other_version;
    EXPECT_TRUE(absl::StrContains(Refusal(), "in use by another server"));
    EXPECT_EQ(TextOf(format), other_version);
  }
  std::ofstream(format) << "store 7\nrocksdb 7 8\n";
  EXPECT_TRUE(absl::StrContains(Refusal(), "is of format 7"));
  std::ofstream(format) << "store 1\nrocksdb 99 0\n";
  EXPECT_TRUE(absl::StrContains(Refusal(), "written by RocksDB 99.0"));
  options_.directory = directory_.path() + "/other";
  std::filesystem::create_directory(options_.directory);
  std::ofstream(options_.directory + "/CURRENT") << "another program's\n";
  EXPECT_TRUE(absl::StrContains(Refusal(), "is no store"));
  options_.allow_damage = true;
  EXPECT_TRUE(absl::StrContains(Refusal(), "is no store"));
  options_.directory = directory_.path() + "/no/such/parent";
  EXPECT_TRUE(absl::StrContains(Refusal(), "cannot be made"));
}

// The root of a file system of its own, with what a start that was killed has
// left there.
TEST_F(RocksStoreTest, ADirectoryInWhichNothingIsCanBecomeAStore) {
  const std::string& path = options_.directory;
  std::filesystem::create_directories(path + "/lost+found");
  std::ofstream(path + "/FORMAT.part") << "sto";
  std::ofstream(path + "/LOCK") << "";
  for (size_t sessions = 0; sessions < 2; ++sessions) {
    const auto store = Open();
    ASSERT_TRUE(store != nullptr);
    EXPECT_EQ(List(*store).size(), sessions);
    ASSERT_TRUE(store->Put(MakeSession(1), MakeSnapshot(1), "").ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path + "/FORMAT.part"));
}

TEST_F(RocksStoreTest, AFirstStartOnAFullDiskIsFollowedByOneThatWorks) {
  // Files can be made, but nothing can be written.
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const auto failed = RocksStore::Open(options_);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, ignored);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable)
      << failed.status();
  EXPECT_FALSE(std::filesystem::exists(options_.directory + "/FORMAT.part"));
  EXPECT_TRUE(Open() != nullptr);
}

TEST_F(RocksStoreTest, ALossOfPowerAfterTheFirstStartLeavesItsDirectories) {
  PowerCalls calls;
  options_.calls = &calls;
  const auto store = Open();
  ASSERT_TRUE(store->AppendRound(1, "round").ok());
  const std::string path = std::filesystem::canonical(options_.directory);
  EXPECT_THAT(calls.left[path], testing::IsSupersetOf({"FORMAT", "CURRENT",
                                                       "rounds", "snapshots"}));
  EXPECT_THAT(calls.left[std::filesystem::path(path).parent_path()],
              testing::Contains("store"));
  EXPECT_THAT(calls.left[path + "/rounds"], testing::SizeIs(2));
}

// A process of its own, since one that has a database open may not be copied.
TEST_F(RocksStoreTest, NothingIsLostWhenItsProcessIsKilled) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = RocksStore::Open(options_);
    if (!store.ok()) _exit(1);
    for (uint64_t i = 0;; ++i) {
      if (!(*store)->Put(MakeSession(i), MakeSnapshot(i), "").ok()) _exit(1);
      if (write(pipe_ends[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
    }
  }
  uint64_t put = 0;
  while (put < 500) {
    ASSERT_EQ(read(pipe_ends[0], &put, sizeof(put)),
              static_cast<ssize_t>(sizeof(put)));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto store = Open();
  EXPECT_GT(List(*store).size(), 500u);
  for (uint64_t i = 0; i <= put; ++i) {
    ASSERT_EQ(store->Read(MakeSession(i).card.uid)->snapshot, MakeSnapshot(i))
        << i;
  }
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST_F(RocksStoreTest, ADiskThatFailsIsToldAndTriedAgain) {
  const auto faults = std::make_shared<Faults>();
  options_.file_system = std::make_shared<FaultyFileSystem>(faults);
  auto store = Open();
  uint64_t next = 0;
  for (std::atomic<bool>* const fault :
       {&faults->full, &faults->broken, &faults->full}) {
    for (int i = 0; i < 5; ++i, ++next) {
      ASSERT_TRUE(store->Put(MakeSession(next), MakeSnapshot(next), "").ok());
    }
    *fault = true;
    for (int i = 0; i < 20; ++i) {
      const absl::Status failed = store->Put(MakeSession(999), "new", "");
      ASSERT_EQ(GetErrorDetails(failed)->reason,
                ErrorReason::kStoreUnavailable);
      ASSERT_TRUE(GetErrorDetails(failed)->retry_after.has_value());
    }
    // What is there can be read meanwhile.
    EXPECT_EQ(store->Read(MakeSession(0).card.uid)->snapshot, MakeSnapshot(0));
    *fault = false;
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (!store->Put(MakeSession(next), MakeSnapshot(next), "").ok()) {
      ASSERT_LT(absl::Now(), give_up);
      absl::SleepFor(absl::Milliseconds(50));
    }
    ++next;
    for (uint64_t i = 0; i < next; ++i) {
      ASSERT_EQ(store->Read(MakeSession(i).card.uid)->snapshot, MakeSnapshot(i))
          << i;
    }
  }
  store.reset();
  store = Open();
  EXPECT_GE(List(*store).size(), next);
}

TEST(CollectedShareTest, IsAsManyBytesHoweverLargeTheStore) {
  EXPECT_EQ(CollectedShare(0), 0.25);
  EXPECT_EQ(CollectedShare(uint64_t{4} << 20), 0.25);
  for (const uint64_t bytes : {uint64_t{1} << 31, uint64_t{1} << 40}) {
    EXPECT_DOUBLE_EQ(CollectedShare(bytes) * static_cast<double>(bytes),
                     3.0 * kBytesOfCompaction);
  }
}

// Enough for flushes, compactions and another look at what is collected.
TEST_F(RocksStoreTest, WhatIsReplacedAgainAndAgainIsAsItWasPutLast) {
  const std::string more(uint64_t{1} << 20, 'm');
  auto store = Open();
  for (uint64_t version = 0; version < 6; ++version) {
    for (uint64_t i = 0; i < 25; ++i) {
      ASSERT_TRUE(
          store->Put(MakeSession(i), MakeSnapshot(i, version) + more, "").ok());
    }
  }
  for (int opened = 0; opened < 2; ++opened) {
    for (uint64_t i = 0; i < 25; ++i) {
      ASSERT_EQ(store->Read(MakeSession(i).card.uid)->snapshot,
                MakeSnapshot(i, 5) + more);
    }
    store.reset();
    store = Open();
  }
}

// Where snapshots above kSnapshotBytes are files.
class FilesOfRocksStoreTest : public RocksStoreTest {
 protected:
  FilesOfRocksStoreTest() {
    options_.snapshot_file_bytes = kSnapshotBytes;
    options_.file_system = std::make_shared<FaultyFileSystem>(faults_);
  }

  // The names of snapshots' files, in order.
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(
             options_.directory + "/snapshots")) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string PathOf(const std::string& name) const {
    return absl::StrCat(options_.directory, "/snapshots/", name);
  }
  // Puts it there when the store works again.
  static void PutAtLast(SessionStore& store, uint64_t i,
                        const std::string& snapshot) {
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (!store.Put(MakeSession(i), snapshot, "").ok()) {
      ASSERT_LT(absl::Now(), give_up);
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
};

std::string LargeSnapshot(uint64_t i, uint64_t version = 0) {
  return MakeSnapshot(i, version) + std::string(1000, 'z');
}

std::string SnapshotIn(SessionStore& store, uint64_t i) {
  const auto state = store.Read(MakeSession(i).card.uid);
  EXPECT_TRUE(state.ok()) << i << state.status();
  return state.ok() ? state->snapshot : "";
}

TEST_F(FilesOfRocksStoreTest, TheyComeAndGoWithTheirSessions) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Put(MakeSession(0), MakeSnapshot(0).substr(9), "").ok());
    EXPECT_THAT(Files(), testing::IsEmpty());
    ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1), "tail").ok());
    ASSERT_TRUE(store->Put(MakeSession(2), LargeSnapshot(2), "").ok());
    ASSERT_TRUE(store->Put(MakeSession(2), LargeSnapshot(2, 1), "").ok());
    EXPECT_THAT(Files(), testing::ElementsAre("snapshot-1", "snapshot-3"));
    // It shrinks, and another one grows.
    ASSERT_TRUE(store->Put(MakeSession(1), "little", "tail").ok());
    ASSERT_TRUE(store->Put(MakeSession(0), LargeSnapshot(0), "").ok());
    EXPECT_THAT(Files(), testing::ElementsAre("snapshot-3", "snapshot-4"));
  }
  const auto store = Open();
  EXPECT_EQ(List(*store).size(), 3u);
  EXPECT_EQ(SnapshotIn(*store, 0), LargeSnapshot(0));
  EXPECT_EQ(SnapshotIn(*store, 1), "little");
  EXPECT_EQ(store->Read(MakeSession(1).card.uid)->tail, "tail");
  EXPECT_EQ(SnapshotIn(*store, 2), LargeSnapshot(2, 1));
  // A change leaves the snapshot where it is.
  const StoredChange changes[] = {{MakeSession(2), "more"}};
  ASSERT_TRUE(store->PutChanges(changes).ok());
  EXPECT_EQ(SnapshotIn(*store, 2), LargeSnapshot(2, 1));
  const SessionUid gone[] = {MakeSession(0).card.uid, MakeSession(1).card.uid,
                             MakeSession(2).card.uid};
  ASSERT_TRUE(store->Remove(gone).ok());
  EXPECT_THAT(Files(), testing::IsEmpty());
  EXPECT_EQ(store->Read(gone[2]).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(FilesOfRocksStoreTest, NoneGoesBeforeNobodyNeedsItAfterALossOfPower) {
  const auto store = Open();
  ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1), "").ok());
  const auto expect_synced_before_removal = [&](const std::string& name) {
    const std::vector<std::string> calls = faults_->Calls();
    ASSERT_GE(calls.size(), 2u);
    EXPECT_EQ(calls.back(), "delete " + name);
    EXPECT_TRUE(absl::StartsWith(calls[calls.size() - 2], "sync ") &&
                absl::EndsWith(calls[calls.size() - 2], ".log"))
        << calls[calls.size() - 2];
  };
  faults_->FailCall(0);
  ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1, 1), "").ok());
  expect_synced_before_removal("snapshot-1");
  EXPECT_EQ(faults_->Calls()[4], "sync snapshots");
  faults_->FailCall(0);
  ASSERT_TRUE(store->Put(MakeSession(1), "little", "").ok());
  expect_synced_before_removal("snapshot-2");
  ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1, 2), "").ok());
  faults_->FailCall(0);
  const SessionUid gone[] = {MakeSession(1).card.uid};
  ASSERT_TRUE(store->Remove(gone).ok());
  expect_synced_before_removal("snapshot-3");
}

TEST_F(FilesOfRocksStoreTest, AFailureAnywhereLeavesTheOldSnapshotOrTheNew) {
  auto store = Open();
  std::string last = LargeSnapshot(1);
  ASSERT_TRUE(store->Put(MakeSession(1), last, "").ok());
  // To create, append, sync, rename, sync the directory; then the database's
  // log, and to delete the old one, which counts for nothing.
  for (int call = 1; call <= 7; ++call) {
    const std::string next = LargeSnapshot(1, static_cast<uint64_t>(call));
    faults_->FailCall(call);
    const absl::Status put = store->Put(MakeSession(1), next, "");
    EXPECT_EQ(put.ok(), call > 5) << call << put;
    if (!put.ok()) {
      EXPECT_EQ(GetErrorDetails(put)->reason, ErrorReason::kStoreUnavailable);
      EXPECT_EQ(SnapshotIn(*store, 1), last);
      store.reset();
      store = Open();
      EXPECT_THAT(Files(), testing::SizeIs(1));
    }
    if (put.ok()) last = next;
    EXPECT_EQ(SnapshotIn(*store, 1), last) << call;
  }
  // What could not be deleted goes at the next start.
  EXPECT_EQ(Files().size(), 2u);
  store.reset();
  store = Open();
  EXPECT_EQ(Files().size(), 1u);
  EXPECT_EQ(SnapshotIn(*store, 1), last);
}

TEST_F(FilesOfRocksStoreTest, ADiskThatFailsIsToldAndTriedAgain) {
  auto store = Open();
  std::string last = LargeSnapshot(1);
  ASSERT_TRUE(store->Put(MakeSession(1), last, "").ok());
  uint64_t version = 0;
  for (std::atomic<bool>* const fault : {&faults_->full, &faults_->broken}) {
    *fault = true;
    ASSERT_FALSE(store->Put(MakeSession(1), LargeSnapshot(1, 99), "").ok());
    ASSERT_FALSE(store->Put(MakeSession(1), "little", "").ok());
    EXPECT_EQ(SnapshotIn(*store, 1), last);
    *fault = false;
    last = LargeSnapshot(1, ++version);
    PutAtLast(*store, 1, last);
    EXPECT_EQ(SnapshotIn(*store, 1), last);
    // Nor does what failed fill the disk.
    EXPECT_EQ(Files().size(), 1u);
  }
}

// The file is there, and whether the database has it is known when it has been
// opened anew.
TEST_F(FilesOfRocksStoreTest, ADatabaseThatFailsDecidesWhichFileIsNeeded) {
  auto store = Open();
  ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1), "").ok());
  static Faults* failing = nullptr;
  failing = faults_.get();
  parking_hook = [](const char* place) {
    if (std::strcmp(place, "RocksStore::Put, with a file") == 0) {
      failing->broken = true;
    }
  };
  ASSERT_FALSE(store->Put(MakeSession(1), LargeSnapshot(1, 1), "").ok());
  parking_hook = nullptr;
  EXPECT_EQ(Files().size(), 2u);
  EXPECT_EQ(SnapshotIn(*store, 1), LargeSnapshot(1));
  faults_->broken = false;
  PutAtLast(*store, 2, "little");
  const std::string found = SnapshotIn(*store, 1);
  EXPECT_TRUE(found == LargeSnapshot(1) || found == LargeSnapshot(1, 1));
  EXPECT_EQ(Files().size(), 1u);
  store.reset();
  store = Open();
  EXPECT_EQ(SnapshotIn(*store, 1), found);
}

TEST_F(RocksStoreTest, WhatHasExpiredIsToldUntilItIsForgotten) {
  auto store = Open();
  const absl::Time time = absl::FromUnixNanos(1'800'000'000'123'456'789);
  const ExpiredId first[] = {{"ann/a", time}, {"/b", absl::UnixEpoch()}};
  ASSERT_TRUE(store->PutExpired(first).ok());
  const ExpiredId second[] = {
      {"/b", std::nullopt}, {"/c", time}, {"/d", std::nullopt}};
  ASSERT_TRUE(store->PutExpired(second).ok());
  for (int opened = 0; opened < 2; ++opened) {
    std::vector<ExpiredId> all;
    ASSERT_TRUE(store
                    ->ForEachExpired(
                        [&](ExpiredId one) { all.push_back(std::move(one)); })
                    .ok());
    EXPECT_THAT(all, testing::UnorderedElementsAre(ExpiredId{"ann/a", time},
                                                   ExpiredId{"/c", time}));
    store.reset();
    store = Open();
  }
}

TEST_F(FilesOfRocksStoreTest, AFileThatIsDamagedIsOneSessionsLossAlone) {
  auto store = Open();
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(store->Put(MakeSession(i), LargeSnapshot(i), "").ok());
  }
  std::filesystem::resize_file(PathOf("snapshot-1"), 99);
  std::filesystem::remove(PathOf("snapshot-2"));
  std::ofstream(PathOf("snapshot-8"), std::ios::binary) << "an orphan";
  std::ofstream(PathOf("snapshot-9.part"), std::ios::binary) << "a part";
  for (int opened = 0; opened < 2; ++opened) {
    for (uint64_t i = 1; i <= 2; ++i) {
      const auto lost = store->Read(MakeSession(i).card.uid);
      ASSERT_EQ(lost.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(GetErrorDetails(lost.status())->reason,
                ErrorReason::kSnapshotCorrupt);
    }
    EXPECT_EQ(SnapshotIn(*store, 3), LargeSnapshot(3));
    store.reset();
    store = Open();
    EXPECT_EQ(List(*store).size(), 3u);
    EXPECT_THAT(Files(), testing::ElementsAre("snapshot-1", "snapshot-3"));
  }
  // They can be deleted, and put there again.
  const SessionUid gone[] = {MakeSession(1).card.uid};
  ASSERT_TRUE(store->Remove(gone).ok());
  ASSERT_TRUE(store->Put(MakeSession(2), LargeSnapshot(2), "").ok());
  EXPECT_EQ(SnapshotIn(*store, 2), LargeSnapshot(2));
}

// A store of a server that had no files of snapshots, and did not tell what has
// expired.
TEST_F(FilesOfRocksStoreTest, AnOlderDirectoryIsGoneOnWith) {
  Open()->Put(MakeSession(1), "little", "tail").IgnoreError();
  const std::string& path = options_.directory;
  {
    std::vector<std::string> names;
    rocksdb::DBOptions options;
    ASSERT_TRUE(rocksdb::DB::ListColumnFamilies(options, path, &names).ok());
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    families.reserve(names.size());
    for (const std::string& name : names) {
      families.emplace_back(name, rocksdb::ColumnFamilyOptions());
    }
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* database = nullptr;
    ASSERT_TRUE(
        rocksdb::DB::Open(options, path, families, &handles, &database).ok());
    ASSERT_THAT(names, testing::ElementsAre("default", "sessions", "snapshots",
                                            "tails", "in_files", "expired"));
    ASSERT_TRUE(database->DropColumnFamily(handles[4]).ok());
    ASSERT_TRUE(database->DropColumnFamily(handles[5]).ok());
    for (auto* const handle : handles) {
      ASSERT_TRUE(database->DestroyColumnFamilyHandle(handle).ok());
    }
    delete database;
  }
  std::filesystem::remove_all(path + "/snapshots");
  std::ofstream(path + "/FORMAT") << "store 2\nrocksdb 7 8\n";
  const auto store = Open();
  EXPECT_EQ(List(*store).size(), 1u);
  EXPECT_EQ(SnapshotIn(*store, 1), "little");
  ASSERT_TRUE(store->Put(MakeSession(1), LargeSnapshot(1), "").ok());
  EXPECT_EQ(SnapshotIn(*store, 1), LargeSnapshot(1));
  EXPECT_TRUE(absl::StartsWith(TextOf(path + "/FORMAT"), "store 6\n"));
}

}  // namespace
}  // namespace steadystate::rocks_store_test
