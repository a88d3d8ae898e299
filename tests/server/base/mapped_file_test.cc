#include "server/base/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

std::string WriteTemp(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(MappedFileTest, ShowsTheBytesAndSurvivesAMove) {
  auto file = MappedFile::Open(WriteTemp("mapped_file_bytes", "abc"));
  ASSERT_TRUE(file.ok()) << file.status();
  MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), 3u);
  EXPECT_EQ(moved.bytes()[2], std::byte{'c'});
}

TEST(MappedFileTest, AnEmptyFileHasNoBytes) {
  const auto file = MappedFile::Open(WriteTemp("mapped_file_empty", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFileTest, NamesWhatIsMissingOrNoFile) {
  const auto missing = MappedFile::Open("/nonexistent/file");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/nonexistent/file"));
  // Nobody writes to the pipe: opening it must not wait for that.
  const std::string pipe = testing::TempDir() + "/mapped_file_pipe";
  unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto folder = MappedFile::Open(testing::TempDir());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReadFileTest, RefusesLongerThanTheBound) {
  const std::string path = WriteTemp("read_file_bound", "12345");
  EXPECT_EQ(ReadFile(path, 5).value(), "12345");
  EXPECT_EQ(ReadFile(path, 4).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace steadystate
