// Goal: the memory of expired sessions is bounded and never wrong about an id
// that is in use again.
#include "server/session/expired_ids.h"

#include <optional>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

absl::Time At(int second) { return absl::FromUnixSeconds(second); }

TEST(ExpiredIdsTest, ForgetsTheOldestBeyondItsBound) {
  ExpiredIds ids(2);
  ids.Add("a", At(1));
  ids.Add("b", At(2));
  EXPECT_EQ(ids.Find("a"), At(1));
  ids.Add("c", At(3));
  EXPECT_EQ(ids.Find("a"), std::nullopt);
  EXPECT_EQ(ids.Find("b"), At(2));
  EXPECT_EQ(ids.Find("c"), At(3));
}

TEST(ExpiredIdsTest, AnIdThatExpiresAgainIsRememberedForTheLastTime) {
  ExpiredIds ids(2);
  ids.Add("a", At(1));
  ids.Forget("a");
  EXPECT_EQ(ids.Find("a"), std::nullopt);
  ids.Add("a", At(2));
  EXPECT_EQ(ids.Find("a"), At(2));
  ids.Add("b", At(3));  // pushes out the first, forgotten entry of a
  EXPECT_EQ(ids.Find("a"), At(2));
  EXPECT_EQ(ids.Find("b"), At(3));
}

TEST(ExpiredIdsTest, MayRememberNothing) {
  ExpiredIds ids(0);
  ids.Add("a", At(1));
  EXPECT_EQ(ids.Find("a"), std::nullopt);
}

}  // namespace
}  // namespace steadystate
