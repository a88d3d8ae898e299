// Goal: what stands in a file's place is told from the file. Method: the bytes
// that Git LFS and web servers leave, and some that look like them.
#include "server/base/fetched_file.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::fetched_file_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Message(absl::string_view bytes) {
  return std::string(CheckIsFetched("a/file", bytes).message());
}

TEST(CheckIsFetchedTest, WhatGitLfsLeavesIsSaid) {
  EXPECT_THAT(
      Message("version https://git-lfs.github.com/spec/v1\noid sha256:4d\n"),
      AllOf(HasSubstr("a/file: "), HasSubstr("`git lfs pull`")));
}

TEST(CheckIsFetchedTest, PagesAreSaid) {
  for (const char* page :
       {"<!DOCTYPE html>\n<html>", "\n <html lang=\"en\">"}) {
    EXPECT_THAT(Message(page), AllOf(HasSubstr("a/file: this is a web page"),
                                     HasSubstr("`hf download`")));
  }
}

TEST(CheckIsFetchedTest, FilesAreTheFile) {
  for (const char* file : {"", "{}", "version 1", "<", "<0x00>"}) {
    EXPECT_EQ(Message(file), "");
  }
}

TEST(ReadModelFileTest, AFileThatIsNotThereIsNone) {
  const TempDirectory directory;
  const auto file = ReadModelFile(directory.path() + "/a.json", 10);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*file, std::nullopt);
  directory.Write("a.json", "{}");
  EXPECT_EQ(*ReadModelFile(directory.path() + "/a.json", 10), "{}");
  EXPECT_EQ(ReadModelFile(directory.path() + "/a.json", 1).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ReadModelFileTest, ALinkToNothingIsSaid) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/a.json";
  std::filesystem::create_symlink("../blobs/4d", path);
  const absl::Status status = ReadModelFile(path, 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path), HasSubstr("../blobs/4d"),
                                      HasSubstr("`hf download`")));
}

TEST(ReadModelFileTest, WhatStandsInAFilesPlaceIsSaid) {
  const TempDirectory directory;
  directory.Write("a.json", "<!doctype html>");
  const absl::Status status =
      ReadModelFile(directory.path() + "/a.json", 100).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("web page"));
}

}  // namespace
}  // namespace steadystate::fetched_file_test
