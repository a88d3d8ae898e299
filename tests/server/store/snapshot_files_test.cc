// Goal: a snapshot in a file is read as it was written, or not at all; one that
// could not be written leaves nothing; and of files that nobody needs none is
// left. Method: files in a fresh directory, on a file system that fails at each
// of its calls in turn, and files that are cut, lost or have a bit flipped.
#include "server/store/snapshot_files.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/binary.h"
#include "server/base/crc32c.h"
#include "server/base/error.h"
#include "tests/server/store/faulty_file_system.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::snapshot_files_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Several calls' worth, and not of a whole number of them.
constexpr size_t kBytes = (size_t{5} << 19) + 12345;

std::string Bytes(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<char>(seed >> 24);
  }
  return bytes;
}

class SnapshotFilesTest : public testing::Test {
 protected:
  SnapshotFilesTest() { EXPECT_TRUE(Open({}).ok()); }

  // As it is opened where these are needed.
  absl::Status Open(const std::set<uint64_t>& needed) {
    files_ = std::make_unique<SnapshotFiles>(
        path_, std::make_shared<FaultyFileSystem>(faults_));
    return files_->Open([&](uint64_t n) { return needed.contains(n); });
  }
  std::string PathOf(const SnapshotFile& file) const {
    return path_ + "/snapshot-" + std::to_string(file.number);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  ErrorReason ReasonOfReading(const SnapshotFile& file) {
    const auto read = files_->Read(file);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
    return GetErrorDetails(read.status())->reason;
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.path() + "/snapshots";
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
  std::unique_ptr<SnapshotFiles> files_;
};

TEST_F(SnapshotFilesTest, WhatIsWrittenIsReadAlsoWhenTheyAreOpenedAgain) {
  const std::string bytes = Bytes(kBytes, 1);
  const auto first = files_->Write(bytes);
  const auto second = files_->Write("short");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->bytes, kBytes);
  EXPECT_EQ(*files_->Read(*first), bytes);
  ASSERT_TRUE(Open({first->number, second->number}).ok());
  EXPECT_EQ(*files_->Read(*first), bytes);
  EXPECT_EQ(*files_->Read(*second), "short");
  files_->Remove(*first);
  EXPECT_EQ(ReasonOfReading(*first), ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(*files_->Read(*second), "short");
  // A number is not given twice.
  const auto third = files_->Write("third");
  EXPECT_GT(third->number, second->number);
}

TEST_F(SnapshotFilesTest, WhatNamesAFileIsReadAsItWasWritten) {
  const SnapshotFile file = {.number = 3, .bytes = 1 << 30, .checksum = 77};
  const std::string bytes = file.ToBytes();
  EXPECT_EQ(SnapshotFile::FromBytes(bytes), file);
  EXPECT_EQ(SnapshotFile::FromBytes(bytes + "x"), std::nullopt);
  EXPECT_EQ(SnapshotFile::FromBytes(bytes.substr(2)), std::nullopt);
  SnapshotFile older = file;
  older.is_plain = true;
  EXPECT_EQ(SnapshotFile::FromBytes(older.ToBytes()), older);
}

// As a snapshot is made: parts, each with its CRC32C after it.
std::string Sections(uint32_t seed) {
  std::string bytes;
  for (const size_t size : {size_t{100}, kBytes, size_t{20}}) {
    const std::string section = Bytes(size, seed++);
    bytes += section;
    BinaryWriter(bytes).Number(Crc32cOf(section));
  }
  return bytes;
}

TEST_F(SnapshotFilesTest, FilesInEachOthersPlacesAreSeen) {
  const std::string bytes = Sections(1);
  // What a checksum of all bytes does not tell apart.
  ASSERT_EQ(Crc32cOf(bytes), Crc32cOf(Sections(11)));
  const auto first = files_->Write(bytes);
  const auto second = files_->Write(Sections(11));
  ASSERT_TRUE(first.ok() && second.ok());
  fs::rename(PathOf(*first), path_ + "/between");
  fs::rename(PathOf(*second), PathOf(*first));
  fs::rename(path_ + "/between", PathOf(*second));
  EXPECT_EQ(ReasonOfReading(*first), ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(ReasonOfReading(*second), ErrorReason::kSnapshotCorrupt);
}

TEST_F(SnapshotFilesTest, FilesOfOlderServersAreRead) {
  auto older = files_->Write(Sections(1));
  ASSERT_TRUE(older.ok());
  older->is_plain = true;
  older->checksum = Crc32cOf(Sections(1));
  EXPECT_EQ(*files_->Read(*older), Sections(1));
  older->checksum += 1;
  EXPECT_EQ(ReasonOfReading(*older), ErrorReason::kSnapshotCorrupt);
}

TEST_F(SnapshotFilesTest, FilesThatNobodyNeedsGoWhenTheyAreOpened) {
  const auto needed = files_->Write("needed");
  const auto orphan = files_->Write("orphan");
  std::ofstream(path_ + "/snapshot-9.part") << "half of";
  std::ofstream(path_ + "/somebody-elses") << "file";
  ASSERT_TRUE(Open({needed->number}).ok());
  EXPECT_THAT(Names(), UnorderedElementsAre("snapshot-1", "somebody-elses"));
  EXPECT_EQ(files_->Write("next")->number, 10u);
}

TEST_F(SnapshotFilesTest, AFileIsWholeBeforeItHasItsName) {
  faults_->FailCall(0);
  ASSERT_TRUE(files_->Write(std::string(kBytes, 'x')).ok());
  EXPECT_THAT(faults_->Calls(),
              ElementsAre("create snapshot-1.part", "append snapshot-1.part",
                          "append snapshot-1.part", "append snapshot-1.part",
                          "sync snapshot-1.part", "rename to snapshot-1",
                          "sync snapshots"));
}

TEST_F(SnapshotFilesTest, AWriteThatFailsAnywhereLeavesNothing) {
  const auto old = files_->Write("old");
  int failed = 0;
  for (int call = 1;; ++call) {
    faults_->FailCall(call);
    const auto written = files_->Write(std::string(kBytes, 'x'));
    if (written.ok()) break;
    ++failed;
    EXPECT_EQ(written.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(Names(), ElementsAre("snapshot-1")) << call;
    EXPECT_EQ(*files_->Read(*old), "old");
  }
  EXPECT_EQ(failed, 7);
  for (std::atomic<bool>* const fault : {&faults_->full, &faults_->broken}) {
    *fault = true;
    EXPECT_FALSE(files_->Write("new").ok());
    *fault = false;
  }
}

TEST_F(SnapshotFilesTest, AReadThatFailsMaySucceedLater) {
  const auto file = files_->Write("snapshot");
  faults_->FailCall(1);
  EXPECT_EQ(files_->Read(*file).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(*files_->Read(*file), "snapshot");
}

TEST_F(SnapshotFilesTest, AFileThatIsNotAsItWasWrittenIsCorrupt) {
  const std::string bytes = Bytes(100, 2);
  const auto file = files_->Write(bytes);
  const std::string path = PathOf(*file);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    std::ofstream(path, std::ios::binary) << flipped;
    ASSERT_EQ(ReasonOfReading(*file), ErrorReason::kSnapshotCorrupt) << bit;
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, size);
    ASSERT_EQ(ReasonOfReading(*file), ErrorReason::kSnapshotCorrupt) << size;
  }
  std::ofstream(path, std::ios::binary) << bytes << "x";
  EXPECT_EQ(ReasonOfReading(*file), ErrorReason::kSnapshotCorrupt);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*files_->Read(*file), bytes);
  fs::remove(path);
  EXPECT_EQ(ReasonOfReading(*file), ErrorReason::kSnapshotCorrupt);
}

}  // namespace
}  // namespace steadystate::snapshot_files_test
