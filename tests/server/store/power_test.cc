// Goal: a store is not taken for damaged after a loss of power at any time, and
// has what was synced. Method: a file system that knows what of each file is
// synced, and leaves a copy of that before every few of the syncs, those that
// RocksDB does in the background included. The notes are as they were written
// last: then they ask for most.
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "rocksdb/file_system.h"
#include "server/base/mutex.h"
#include "server/store/rocks_store.h"
#include "tests/server/store/rocks_store_harness.h"

namespace steadystate::power_test {
namespace {

// What of the files in a directory a loss of power leaves. A lock keeps all
// else out while they are copied.
class Disk {
 public:
  Disk(std::string directory, std::string copies)
      : directory_(std::move(directory)), copies_(std::move(copies)) {}

  // How many sessions are synced.
  void SetSessions(uint64_t count) {
    const MutexLock lock(mutex_);
    sessions_ = count;
  }
  // Of each copy, how many sessions it must have.
  std::map<std::string, uint64_t> Copies() {
    const MutexLock lock(mutex_);
    return copied_;
  }

  rocksdb::IOStatus Create(const std::string& path,
                           const std::function<rocksdb::IOStatus()>& create) {
    const MutexLock lock(mutex_);
    synced_[path] = 0;
    return create();
  }
  rocksdb::IOStatus Sync(const std::string& path,
                         const std::function<rocksdb::IOStatus()>& sync) {
    const MutexLock lock(mutex_);
    if (++syncs_ % 5 == 0) Copy();
    const rocksdb::IOStatus synced = sync();
    if (synced.ok()) synced_[path] = std::filesystem::file_size(path);
    return synced;
  }
  rocksdb::IOStatus SyncNames(const std::function<rocksdb::IOStatus()>& sync) {
    const MutexLock lock(mutex_);
    if (++syncs_ % 5 == 0) Copy();
    const rocksdb::IOStatus synced = sync();
    for (const auto& [path, bytes] : synced_) named_.insert(path);
    before_.clear();
    return synced;
  }
  // Until the names are synced the old file may have the name, or none.
  rocksdb::IOStatus Rename(const std::string& from, const std::string& to,
                           const std::function<rocksdb::IOStatus()>& rename) {
    const MutexLock lock(mutex_);
    before_.try_emplace(to, named_.contains(to) ? TextOf(to) : "");
    synced_[to] = synced_[from];
    Forget(from);
    return rename();
  }
  rocksdb::IOStatus Delete(const std::string& path,
                           const std::function<rocksdb::IOStatus()>& remove) {
    const MutexLock lock(mutex_);
    Forget(path);
    return remove();
  }

 private:
  void Forget(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    synced_.erase(path);
    named_.erase(path);
  }

  void Copy() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string copy = absl::StrCat(copies_, "-", copied_.size());
    std::filesystem::create_directory(copy);
    for (const char* const name : {"FORMAT", "WRITTEN"}) {
      const std::string from = absl::StrCat(directory_, "/", name);
      if (std::filesystem::exists(from)) {
        std::filesystem::copy_file(from, absl::StrCat(copy, "/", name));
      }
    }
    for (const auto& [path, bytes] : synced_) {
      if (!named_.contains(path)) continue;
      const std::string to = copy + path.substr(path.rfind('/'));
      const auto before = before_.find(path);
      if (before != before_.end()) {
        std::ofstream(to, std::ios::binary) << before->second;
        continue;
      }
      std::filesystem::copy_file(path, to);
      std::filesystem::resize_file(to, bytes);
    }
    copied_[copy] = sessions_;
  }

  const std::string directory_;
  const std::string copies_;
  Mutex mutex_;
  uint64_t sessions_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t syncs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> copied_ ABSL_GUARDED_BY(mutex_);
  // How much of each file is synced, and of which ones the names are.
  std::map<std::string, uint64_t> synced_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> named_ ABSL_GUARDED_BY(mutex_);
  // What had the names before that were given anew since.
  std::map<std::string, std::string> before_ ABSL_GUARDED_BY(mutex_);
};

class PowerFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  PowerFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path,
            Disk& disk)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        disk_(disk) {}
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    return disk_.Sync(path_, [&] {
      return FSWritableFileOwnerWrapper::Sync(options, context);
    });
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    return disk_.Sync(path_, [&] {
      return FSWritableFileOwnerWrapper::Fsync(options, context);
    });
  }

 private:
  const std::string path_;
  Disk& disk_;
};

class PowerDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  PowerDirectory(std::unique_ptr<rocksdb::FSDirectory> directory, Disk& disk)
      : FSDirectoryWrapper(std::move(directory)), disk_(disk) {}
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    return disk_.SyncNames(
        [&] { return FSDirectoryWrapper::Fsync(options, context); });
  }
  rocksdb::IOStatus FsyncWithDirOptions(
      const rocksdb::IOOptions& options, rocksdb::IODebugContext* context,
      const rocksdb::DirFsyncOptions& which) override {
    return disk_.SyncNames([&] {
      return FSDirectoryWrapper::FsyncWithDirOptions(options, context, which);
    });
  }

 private:
  Disk& disk_;
};

class PowerFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit PowerFileSystem(Disk& disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(disk) {}
  const char* Name() const override { return "PowerFileSystem"; }
  rocksdb::IOStatus NewWritableFile(
      const std::string& name, const rocksdb::FileOptions& options,
      std::unique_ptr<rocksdb::FSWritableFile>* file,
      rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus made = disk_.Create(name, [&] {
      return FileSystemWrapper::NewWritableFile(name, options, file, context);
    });
    if (made.ok()) {
      *file = std::make_unique<PowerFile>(std::move(*file), name, disk_);
    }
    return made;
  }
  rocksdb::IOStatus NewDirectory(
      const std::string& name, const rocksdb::IOOptions& options,
      std::unique_ptr<rocksdb::FSDirectory>* directory,
      rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus made =
        FileSystemWrapper::NewDirectory(name, options, directory, context);
    if (made.ok()) {
      *directory =
          std::make_unique<PowerDirectory>(std::move(*directory), disk_);
    }
    return made;
  }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    return disk_.Rename(from, to, [&] {
      return FileSystemWrapper::RenameFile(from, to, options, context);
    });
  }
  rocksdb::IOStatus DeleteFile(const std::string& name,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override {
    return disk_.Delete(name, [&] {
      return FileSystemWrapper::DeleteFile(name, options, context);
    });
  }

 private:
  Disk& disk_;
};

TEST_F(RocksStoreTest, ALossOfPowerAtAnyTimeIsNoDamage) {
  PowerCalls calls;
  options_.calls = &calls;
  Disk disk(options_.directory, directory_.path() + "/copy");
  options_.file_system = std::make_shared<PowerFileSystem>(disk);
  // So that tables are written, and several logs of the database are there.
  const std::string large(700'000, 'x');
  uint64_t count = 0;
  for (int opened = 0; opened < 2; ++opened) {
    const auto store = Open();
    for (int i = 0; i < 60; ++i, ++count) {
      ASSERT_TRUE(store->Put(MakeSession(count), MakeSnapshot(count), "").ok());
      ASSERT_TRUE(store->Put(MakeSession(9999), large, "").ok());
      if (i % 4 != 0) continue;
      ASSERT_TRUE(store->Sync().ok());
      disk.SetSessions(count + 1);
    }
  }
  ++calls.boot;
  options_.file_system = nullptr;
  const std::map<std::string, uint64_t> copies = disk.Copies();
  EXPECT_GT(copies.size(), 10u);
  for (const auto& [copy, sessions] : copies) {
    SCOPED_TRACE(copy);
    // Before that the directory was not yet a store.
    if (!std::filesystem::exists(copy + "/CURRENT")) continue;
    options_.directory = copy;
    auto store = Open();
    ASSERT_TRUE(store != nullptr);
    const ById listed = List(*store);
    for (uint64_t i = 0; i < sessions; ++i) {
      ASSERT_TRUE(listed.contains(MakeSession(i).card.id)) << i;
      ASSERT_EQ(store->Read(MakeSession(i).card.uid)->snapshot,
                MakeSnapshot(i));
    }
    store.reset();
    std::filesystem::remove_all(copy);
  }
}

}  // namespace
}  // namespace steadystate::power_test
