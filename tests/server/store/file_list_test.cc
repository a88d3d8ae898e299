// Goal: a list says what was listed last, after whatever call has failed, and
// nothing where it cannot be read. Method: a directory of its own, calls that
// fail when they are told to, and all damage that a bit or a cut can do.
#include "server/store/file_list.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::file_list_test {
namespace {

using Sizes = FileList::Sizes;

// Notes what is called, and lets one call fail.
class CountedCalls final : public FileCalls {
 public:
  int Create(const char* path) override {
    return Fails("create") ? -1 : FileCalls::Create(path);
  }
  ssize_t Write(int file, const char* bytes, size_t count) override {
    // A part of it at a time.
    return Fails("write") ? -1 : FileCalls::Write(file, bytes, (count + 1) / 2);
  }
  int Sync(int file) override {
    const std::string path =
        std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", file));
    const bool directory = std::filesystem::is_directory(path);
    return Fails(directory ? "sync directory" : "sync") ? -1
                                                        : FileCalls::Sync(file);
  }

  std::vector<std::string> calls;
  std::string failing;

 private:
  bool Fails(const std::string& call) {
    if (calls.empty() || calls.back() != call) calls.push_back(call);
    errno = EIO;
    return call == failing;
  }
};

class FileListTest : public testing::Test {
 protected:
  std::string Path() const { return directory_.path() + "/FILES"; }
  Sizes Found() { return FileList(directory_.path(), calls_).Read(); }

  const TempDirectory directory_;
  CountedCalls calls_;
};

TEST_F(FileListTest, SaysWhatWasListedLast) {
  FileList list(directory_.path(), calls_);
  EXPECT_EQ(list.Read(), Sizes());
  for (const Sizes& sizes :
       {Sizes{{3, 100}, {~uint64_t{0}, 0}}, Sizes{{3, 100}}, Sizes()}) {
    ASSERT_TRUE(list.Write(sizes).ok());
    EXPECT_EQ(Found(), sizes);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(FileListTest, IsSyncedUnderAnotherNameFirst) {
  FileList list(directory_.path(), calls_);
  std::ofstream(Path() + ".part") << "what a process has left that was killed";
  ASSERT_TRUE(list.Write({{1, 2}}).ok());
  EXPECT_THAT(calls_.calls, testing::ElementsAre("create", "write", "sync",
                                                 "sync directory"));
  calls_.calls.clear();
  ASSERT_TRUE(list.Write({{1, 2}}).ok());
  EXPECT_THAT(calls_.calls, testing::IsEmpty());
  ASSERT_TRUE(list.Write({}).ok());
  EXPECT_THAT(calls_.calls, testing::ElementsAre("sync directory"));
}

TEST_F(FileListTest, WhatFailsLeavesTheOneThatWasThereOrTheNext) {
  const Sizes before = {{1, 2}};
  const Sizes next = {{1, 2}, {3, 4}};
  for (const char* const call : {"create", "write", "sync", "sync directory"}) {
    FileList list(directory_.path(), calls_);
    ASSERT_TRUE(list.Write(before).ok());
    calls_.failing = call;
    const absl::Status written = list.Write(next);
    EXPECT_EQ(written.code(), absl::StatusCode::kUnavailable) << written;
    calls_.failing.clear();
    EXPECT_EQ(Found(), call == std::string("sync directory") ? next : before);
    EXPECT_FALSE(std::filesystem::exists(Path() + ".part"));
    ASSERT_TRUE(list.Write(before).ok());
    EXPECT_EQ(Found(), before);
  }
}

TEST_F(FileListTest, WhatIsDamagedSaysNothing) {
  ASSERT_TRUE(FileList(directory_.path(), calls_).Write({{1, 2}, {3, 4}}).ok());
  std::ifstream file(Path(), std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    std::ofstream(Path(), std::ios::binary) << bytes;
    ASSERT_EQ(Found(), Sizes()) << bit;
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(Path(), std::ios::binary) << whole.substr(0, size);
    ASSERT_EQ(Found(), Sizes()) << size;
  }
  // And is replaced.
  FileList list(directory_.path(), calls_);
  list.Read();
  ASSERT_TRUE(list.Write({}).ok());
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

}  // namespace
}  // namespace steadystate::file_list_test
