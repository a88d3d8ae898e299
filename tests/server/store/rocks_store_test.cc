// Goal: what was put into the store is there until it is removed: after it is
// closed, after its process was killed, after a disk that failed works again;
// and a directory that is not this model's store is left alone. Method: a store
// in a fresh directory; a process that is killed while it writes; a file system
// that fails when it is told to; files that are cut.
#include "server/store/rocks_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"
#include "server/base/error.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

constexpr size_t kSnapshotBytes = 20'000;

StoredSession MakeSession(uint64_t i) {
  StoredSession session;
  session.card.uid = {i, ~i};
  session.card.id = absl::StrCat("s", i);
  session.card.owner = i % 2 == 0 ? "" : "somebody";
  session.card.labels = {{"number", absl::StrCat(i)}};
  session.card.ttl = absl::Minutes(5);
  session.card.create_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  session.card.last_step_time = session.card.create_time + absl::Seconds(i);
  session.position = 3 * i;
  session.other_numerics = i % 3 == 0;
  session.durability = static_cast<Durability>(i % 4);
  session.round = 7 * i;
  session.repeatable_from = 2 * i;
  if (i % 2 == 1) session.prefix = {i, 5 * i};
  if (i % 3 == 1) {
    session.tail = {.end = 4 * i,
                    .numerics = 6 * i,
                    .through_round = 8 * i,
                    .damaged = i % 2 == 0,
                    .remade = i % 4 == 1};
  }
  return session;
}

void ExpectSame(const std::optional<StoredTail>& found,
                const std::optional<StoredTail>& expected) {
  ASSERT_EQ(found.has_value(), expected.has_value());
  if (!found.has_value()) return;
  EXPECT_EQ(found->end, expected->end);
  EXPECT_EQ(found->numerics, expected->numerics);
  EXPECT_EQ(found->through_round, expected->through_round);
  EXPECT_EQ(found->damaged, expected->damaged);
  EXPECT_EQ(found->remade, expected->remade);
}

std::string MakeSnapshot(uint64_t i, uint64_t version = 0) {
  std::string bytes(kSnapshotBytes, static_cast<char>(i));
  return absl::StrCat(bytes, version);
}

using Listed = std::map<std::string, StoredSession>;

Listed List(SessionStore& store) {
  Listed listed;
  const absl::Status status = store.ForEach([&](StoredSession session) {
    listed.emplace(session.card.id, std::move(session));
  });
  EXPECT_TRUE(status.ok()) << status;
  return listed;
}

class RocksStoreTest : public testing::Test {
 protected:
  RocksStoreTest() {
    options_.directory = directory_.path() + "/store";
    options_.model = "tiny";
    options_.fingerprint = "f00d";
  }

  std::unique_ptr<SessionStore> Open() {
    auto store = RocksStore::Open(options_);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
  // What opening it says.
  std::string Refusal() {
    const auto store = RocksStore::Open(options_);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
    return std::string(store.status().message());
  }

  const TempDirectory directory_;
  RocksStoreOptions options_;
};

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
  const Listed listed = List(*store);
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

TEST_F(RocksStoreTest, ADirectoryThatIsNotThisModelsStoreIsLeftAlone) {
  Open();
  options_.fingerprint = "beef";
  EXPECT_TRUE(absl::StrContains(Refusal(), "has the sessions of model 'tiny'"));
  options_.fingerprint = "f00d";
  {
    const auto store = Open();
    EXPECT_TRUE(absl::StrContains(Refusal(), "in use by another server"));
  }
  const std::string format = options_.directory + "/FORMAT";
  std::ofstream(format) << "store 3\nrocksdb 7 8\n";
  EXPECT_TRUE(absl::StrContains(Refusal(), "is of format 3"));
  std::ofstream(format) << "store 1\nrocksdb 99 0\n";
  EXPECT_TRUE(absl::StrContains(Refusal(), "written by RocksDB 99.0"));
  std::filesystem::remove(format);
  EXPECT_TRUE(absl::StrContains(Refusal(), "is no store"));
  options_.directory = directory_.path() + "/no/such/parent";
  EXPECT_TRUE(absl::StrContains(Refusal(), "cannot be made"));
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

TEST_F(RocksStoreTest, ACutLogIsReadToItsLastWholeRecord) {
  {
    const auto store = Open();
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(store->Put(MakeSession(i), MakeSnapshot(i), "").ok());
    }
  }
  for (const auto& file :
       std::filesystem::directory_iterator(options_.directory)) {
    if (file.path().extension() != ".log" || file.file_size() == 0) continue;
    std::filesystem::resize_file(file.path(), file.file_size() - 37);
  }
  const auto store = Open();
  const Listed listed = List(*store);
  EXPECT_EQ(listed.size(), 19u);
  for (uint64_t i = 0; i < 19; ++i) {
    EXPECT_EQ(store->Read(MakeSession(i).card.uid)->snapshot, MakeSnapshot(i));
  }
}

// What a disk does that is full, or broken.
struct Faults {
  std::atomic<bool> full = false;
  std::atomic<bool> broken = false;

  rocksdb::IOStatus Next() const {
    if (full) return rocksdb::IOStatus::NoSpace("no space left");
    if (broken) return rocksdb::IOStatus::IOError("input/output error");
    return rocksdb::IOStatus::OK();
  }
};

class FaultyFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file,
             std::shared_ptr<const Faults> faults)
      : FSWritableFileOwnerWrapper(std::move(file)),
        faults_(std::move(faults)) {}
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data,
                           const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next();
    if (fault.ok()) {
      return FSWritableFileOwnerWrapper::Append(data, options, context);
    }
    // Half of it gets there.
    FSWritableFileOwnerWrapper::Append({data.data(), data.size() / 2}, options,
                                       context)
        .PermitUncheckedError();
    return fault;
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus fault = faults_->Next();
    return fault.ok() ? FSWritableFileOwnerWrapper::Sync(options, context)
                      : fault;
  }

 private:
  const std::shared_ptr<const Faults> faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(std::shared_ptr<const Faults> faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()),
        faults_(std::move(faults)) {}
  const char* Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus made =
        FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (made.ok()) {
      *file = std::make_unique<FaultyFile>(std::move(*file), faults_);
    }
    return made;
  }

 private:
  const std::shared_ptr<const Faults> faults_;
};

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

}  // namespace
}  // namespace steadystate
