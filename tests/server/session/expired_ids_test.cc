// Goal: the memory of expired sessions is bounded and never wrong about an id
// that is in use again; what it tells a store leaves there just what it
// remembers. Method: the second by a store that is told at random times, or
// fails, half of which have happened all the same.
#include "server/session/expired_ids.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::expired_ids_test {
namespace {

using testing::ElementsAre;

absl::Time At(int second) { return absl::FromUnixSeconds(second); }

void Add(ExpiredIds& ids, const char* id, int second) {
  ids.Add(id, At(second), ExpiredIds::Stored::kYes);
}

TEST(ExpiredIdsTest, ForgetsTheOldestBeyondItsBound) {
  ExpiredIds ids(2);
  Add(ids, "a", 1);
  Add(ids, "b", 2);
  EXPECT_EQ(ids.Find("a"), At(1));
  Add(ids, "c", 3);
  EXPECT_EQ(ids.Find("a"), std::nullopt);
  EXPECT_EQ(ids.Find("b"), At(2));
  EXPECT_EQ(ids.Find("c"), At(3));
}

TEST(ExpiredIdsTest, AnIdThatExpiresAgainIsRememberedForTheLastTime) {
  ExpiredIds ids(2);
  Add(ids, "a", 1);
  ids.Forget("a");
  EXPECT_EQ(ids.Find("a"), std::nullopt);
  Add(ids, "a", 2);
  EXPECT_EQ(ids.Find("a"), At(2));
  Add(ids, "b", 3);  // pushes out the first, forgotten entry of a
  EXPECT_EQ(ids.Find("a"), At(2));
  EXPECT_EQ(ids.Find("b"), At(3));
}

TEST(ExpiredIdsTest, MayRememberNothing) {
  ExpiredIds ids(0);
  Add(ids, "a", 1);
  EXPECT_EQ(ids.Find("a"), std::nullopt);
  EXPECT_FALSE(ids.has_untold());
}

TEST(ExpiredIdsTest, TellsWhatAStoreIsToKnow) {
  ExpiredIds ids(4);
  Add(ids, "a", 1);
  ids.Add("not stored", At(2), ExpiredIds::Stored::kNo);
  EXPECT_THAT(ids.TakeUntold(), ElementsAre(ExpiredId{"/a", At(1)}));
  EXPECT_FALSE(ids.has_untold());
  // Of what it was never told nothing is taken back.
  Add(ids, "b", 3);
  ids.Forget("b");
  EXPECT_FALSE(ids.has_untold());
  ids.Forget("a");
  EXPECT_THAT(ids.TakeUntold(), ElementsAre(ExpiredId{"/a", std::nullopt}));
  // What could not be told is told again, as it is then.
  Add(ids, "c", 4);
  const std::vector<ExpiredId> untold = ids.TakeUntold();
  ids.Forget("c");
  ids.GiveBack(untold);
  EXPECT_THAT(ids.TakeUntold(), ElementsAre(ExpiredId{"/c", std::nullopt}));
}

TEST(ExpiredIdsTest, AStoreHasWhatIsRemembered) {
  constexpr unsigned kSeed = 20261125;
  std::cout << "seed " << kSeed << "\n";
  std::mt19937 random(kSeed);
  std::map<std::string, std::optional<absl::Time>> store;
  ExpiredIds ids(8);
  for (int second = 1; second <= 20'000; ++second) {
    const std::string id = absl::StrCat(random() % 24);
    const unsigned what = random() % 16;
    if (what < 6) {
      ids.Add({id}, At(second),
              random() % 4 == 0 ? ExpiredIds::Stored::kNo
                                : ExpiredIds::Stored::kYes);
    } else if (what < 10) {
      ids.Forget({id});
    } else if (what < 12) {
      const std::vector<ExpiredId> untold = ids.TakeUntold();
      ASSERT_LE(untold.size(), 16u);
      const bool fails = random() % 3 == 0;
      if (!fails || random() % 2 == 0) {
        for (const ExpiredId& told : untold) store[told.name] = told.time;
      }
      // Meanwhile something happens.
      ids.Forget({absl::StrCat(random() % 24)});
      if (fails) ids.GiveBack(untold);
    } else if (what == 12) {
      // Another process.
      for (const ExpiredId& told : ids.TakeUntold()) {
        store[told.name] = told.time;
      }
      std::vector<ExpiredId> found;
      for (const auto& [name, time] : store) {
        if (time.has_value()) found.push_back({name, time});
      }
      ASSERT_LE(found.size(), 8u);
      std::sort(found.begin(), found.end(),
                [](auto& a, auto& b) { return a.time < b.time; });
      ids = ExpiredIds(8);
      for (const ExpiredId& one : found) ids.AddStored(one);
      for (int i = 0; i < 24; ++i) {
        const std::string one = absl::StrCat(i);
        ASSERT_EQ(ids.Find({one}), store[absl::StrCat("/", one)]) << second;
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::expired_ids_test
