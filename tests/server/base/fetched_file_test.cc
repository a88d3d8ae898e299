// Goal: what stands in a file's place is told from the file. Method: the bytes
// that Git LFS and web servers leave, and some that look like them.
#include "server/base/fetched_file.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate {
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

}  // namespace
}  // namespace steadystate
