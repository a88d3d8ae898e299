#include "server/base/mapped_file.h"

#include <sys/stat.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::mapped_file_test {
namespace {

using testing::HasSubstr;

TEST(MappedFileTest, ShowsTheBytesAndSurvivesAMove) {
  const TempDirectory directory;
  auto file = MappedFile::Open(directory.Write("bytes", "abc"));
  ASSERT_TRUE(file.ok()) << file.status();
  MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), 3u);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  const TempDirectory directory;
  const auto file = MappedFile::Open(directory.Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, NamesWhatIsMissingOrNoFile) {
  const auto missing = MappedFile::Open("/nonexistent/file");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/nonexistent/file"));
  // Nobody writes to the pipe: opening it must not wait for that.
  const TempDirectory directory;
  const std::string pipe = directory.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto folder = MappedFile::Open(directory.path());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadFileTest, RefusesLongerThanTheBound) {
  const TempDirectory directory;
  const std::string path = directory.Write("bound", "12345");
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  EXPECT_EQ(ReadFile(path, 4).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace steadystate::mapped_file_test
