// Goal: RocksDB gets at no file by its name while the store's directory is not
// where it was; and how long its manifest is, as far as it is synced, is known.
// Method: each call that takes a name, with a directory that is moved, and with
// a disk that fails.
#include "server/store/store_files.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/file_system.h"
#include "tests/server/store/faulty_file_system.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::store_files_test {
namespace {

const rocksdb::FileOptions kFile;
const rocksdb::IOOptions kCall;

class StoreFilesTest : public testing::Test {
 protected:
  StoreFilesTest() {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ + "/LOCK") << "";
    std::ofstream(path_ + "/file") << "bytes";
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.path() + "/store";
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  StoreFiles files_{path_, std::make_shared<FaultyFileSystem>(faults_)};
};

TEST_F(StoreFilesTest, NothingIsDoneByNameInAnotherDirectory) {
  const std::string file = path_ + "/file";
  const std::vector<std::function<rocksdb::IOStatus()>> calls = {
      [&] {
        std::unique_ptr<rocksdb::FSSequentialFile> opened;
        return files_.NewSequentialFile(file, kFile, &opened, nullptr);
      },
      [&] {
        std::unique_ptr<rocksdb::FSRandomAccessFile> opened;
        return files_.NewRandomAccessFile(file, kFile, &opened, nullptr);
      },
      [&] {
        std::unique_ptr<rocksdb::FSWritableFile> made;
        return files_.NewWritableFile(path_ + "/new", kFile, &made, nullptr);
      },
      [&] {
        return files_.CreateDirIfMissing(path_ + "/directory", kCall, nullptr);
      },
      [&] {
        std::vector<std::string> names;
        return files_.GetChildren(path_, kCall, &names, nullptr);
      },
      [&] {
        rocksdb::FileLock* lock = nullptr;
        rocksdb::IOStatus locked =
            files_.LockFile(path_ + "/other", kCall, &lock, nullptr);
        if (locked.ok()) {
          files_.UnlockFile(lock, kCall, nullptr).PermitUncheckedError();
        }
        return locked;
      },
      [&] {
        return files_.RenameFile(file, path_ + "/renamed", kCall, nullptr);
      },
      [&] { return files_.DeleteFile(path_ + "/renamed", kCall, nullptr); }};
  ASSERT_TRUE(files_.directory().Hold().ok());
  const std::string elsewhere = path_ + "-elsewhere";
  std::filesystem::rename(path_, elsewhere);
  std::filesystem::copy(elsewhere, path_);
  std::ofstream(path_ + "/renamed") << "bytes";
  for (const auto& call : calls) EXPECT_TRUE(call().IsIOError());
  using Entries = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Entries(path_), Entries()), 3);
  std::filesystem::remove_all(path_);
  std::filesystem::rename(elsewhere, path_);
  for (const auto& call : calls) EXPECT_TRUE(call().ok());
}

TEST_F(StoreFilesTest, TellsWhatIsSyncedOfTheManifest) {
  EXPECT_EQ(files_.manifest().number, 0u);
  std::unique_ptr<rocksdb::FSWritableFile> other;
  ASSERT_TRUE(
      files_.NewWritableFile(path_ + "/000001.log", kFile, &other, nullptr)
          .ok());
  ASSERT_TRUE(other->Append("bytes", kCall, nullptr).ok());
  ASSERT_TRUE(other->Sync(kCall, nullptr).ok());
  EXPECT_EQ(files_.manifest().number, 0u);
  std::unique_ptr<rocksdb::FSWritableFile> manifest;
  ASSERT_TRUE(files_
                  .NewWritableFile(path_ + "/MANIFEST-000012", kFile, &manifest,
                                   nullptr)
                  .ok());
  ASSERT_TRUE(manifest->Append("four", kCall, nullptr).ok());
  EXPECT_EQ(files_.manifest().number, 0u);
  ASSERT_TRUE(manifest->Sync(kCall, nullptr).ok());
  EXPECT_EQ(files_.manifest().number, 12u);
  EXPECT_EQ(files_.manifest().bytes, 4u);
  ASSERT_TRUE(manifest->Append("more", kCall, nullptr).ok());
  faults_->broken = true;
  EXPECT_FALSE(manifest->Sync(kCall, nullptr).ok());
  EXPECT_EQ(files_.manifest().bytes, 4u);
  faults_->broken = false;
  ASSERT_TRUE(manifest->Sync(kCall, nullptr).ok());
  EXPECT_EQ(files_.manifest().bytes, 8u);
}

}  // namespace
}  // namespace steadystate::store_files_test
