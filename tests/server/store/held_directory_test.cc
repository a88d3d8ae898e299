// Goal: a directory that is no longer where it was is told, and so is the one
// that is there instead; and it is all right again when it is back. Method: a
// directory that is renamed, removed and replaced.
#include "server/store/held_directory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::held_directory_test {
namespace {

class HeldDirectoryTest : public testing::Test {
 protected:
  HeldDirectoryTest() {
    std::filesystem::create_directory(path_);
    std::ofstream(path_ + "/LOCK") << "";
  }

  void ExpectTold(const HeldDirectory& held, const std::string& what) const {
    const absl::Status told = held.Check();
    EXPECT_EQ(told.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(told.message(), path_)) << told;
    EXPECT_TRUE(absl::StrContains(told.message(), what)) << told;
  }

  const TempDirectory directory_;
  const std::string path_ = directory_.path() + "/held";
  const std::string elsewhere_ = directory_.path() + "/elsewhere";
};

TEST_F(HeldDirectoryTest, MayBeAnyBeforeItIsHeld) {
  const HeldDirectory held(directory_.path() + "/none", "LOCK");
  EXPECT_TRUE(held.Check().ok());
}

TEST_F(HeldDirectoryTest, MustBeThereToBeHeld) {
  HeldDirectory none(directory_.path() + "/none");
  EXPECT_EQ(none.Hold().code(), absl::StatusCode::kUnavailable);
  HeldDirectory without(path_, "no lock");
  EXPECT_EQ(without.Hold().code(), absl::StatusCode::kUnavailable);
}

TEST_F(HeldDirectoryTest, IsToldWhenItIsMovedUntilItIsBack) {
  HeldDirectory held(path_, "LOCK");
  ASSERT_TRUE(held.Hold().ok());
  EXPECT_TRUE(held.Check().ok());
  std::filesystem::rename(path_, elsewhere_);
  ExpectTold(held, "put it back");
  std::filesystem::create_directory(path_);
  std::ofstream(path_ + "/LOCK") << "";
  ExpectTold(held, "is another directory");
  std::filesystem::remove_all(path_);
  // By another name it is the same one.
  std::filesystem::create_directory_symlink(elsewhere_, path_);
  EXPECT_TRUE(held.Check().ok());
  std::filesystem::remove(path_);
  std::filesystem::rename(elsewhere_, path_);
  EXPECT_TRUE(held.Check().ok());
}

// Whose number the next one does not get.
TEST_F(HeldDirectoryTest, IsToldWhenItIsRemoved) {
  HeldDirectory held(path_);
  ASSERT_TRUE(held.Hold().ok());
  for (int i = 0; i < 10; ++i) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directory(path_);
    ExpectTold(held, "is another directory");
  }
}

TEST_F(HeldDirectoryTest, IsToldWhenNothingKeepsOthersOut) {
  HeldDirectory held(path_, "LOCK");
  HeldDirectory without(path_);
  ASSERT_TRUE(held.Hold().ok());
  ASSERT_TRUE(without.Hold().ok());
  std::filesystem::rename(path_ + "/LOCK", elsewhere_);
  ExpectTold(held, "LOCK was removed or replaced");
  std::ofstream(path_ + "/LOCK") << "";
  ExpectTold(held, "LOCK was removed or replaced");
  EXPECT_TRUE(without.Check().ok());
  std::filesystem::rename(elsewhere_, path_ + "/LOCK");
  EXPECT_TRUE(held.Check().ok());
}

}  // namespace
}  // namespace steadystate::held_directory_test
