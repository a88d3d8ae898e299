// Goal: what a store has stays readable for later versions of this server, of
// RocksDB and of Debian. Method: directories that an earlier server has left on
// Debian 12 (tests/data/stores says how they were made) are opened; their
// sessions go on, and are compared with new ones that are given the same
// inputs, cut in the same way. Not to the bit: another CPU may read them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/rocks_store.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::old_stores_test {
namespace {

using testing::ElementsAre;

constexpr char kSourceDir[] = STEADYSTATE_SOURCE_DIR;

// What a session absorbed: a prompt at once, then what it drew, one by one.
struct Part {
  std::vector<int32_t> prompt;
  std::vector<int32_t> drawn;
};

const std::vector<int32_t> kFirstPrompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
const std::vector<int32_t> kFirstDrawn = {96, 75, 42, 94, 32, 10,
                                          10, 81, 35, 78, 3,  62};
const Part kFirst = {kFirstPrompt, kFirstDrawn};
// It hibernated in between.
const std::vector<Part> kSynced = {kFirst,
                                   {{11, 12, 13}, {37, 26, 35, 16, 66}}};
// It absorbed the same, but was then taken back to what it was before it drew.
const std::vector<Part> kLogged = {
    kFirst, {{11, 12, 13}, {}}, {{11, 12, 13}, {71, 57, 91, 74}}};

uint64_t LengthOf(const std::vector<Part>& parts) {
  uint64_t length = 0;
  for (const Part& part : parts) {
    length += part.prompt.size() + part.drawn.size();
  }
  return length;
}

// The largest difference, relative to the largest of the second.
double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::fabs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::fabs(double{b[i]}));
  }
  return difference / largest;
}

class OldStoresTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string source(kSourceDir);
    const absl::StatusOr<std::shared_ptr<const Model>> model = Model::Load(
        {.path = source + "/tests/golden/gla", .weight_dtype = DType::kF32});
    ASSERT_TRUE(model.ok()) << model.status();
    std::filesystem::copy(source + "/tests/data/stores/" + GetParam(),
                          directory_.path(),
                          std::filesystem::copy_options::recursive);
    RocksStoreOptions kept;
    kept.directory = directory_.path();
    kept.model = "gla";
    kept.fingerprint = (*model)->description().fingerprint;
    absl::StatusOr<std::unique_ptr<SessionStore>> store =
        RocksStore::Open(kept);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    EngineOptions options;
    options.history = 64;
    options.durability = Durability::kLog;
    options.allow_other_numerics = true;
    harness_ = std::make_unique<EngineHarness>(options, *model, store_.get());
  }

  std::vector<float> LogitsAfter(const std::string& session) {
    const absl::StatusOr<StepRecord> step =
        harness_->Step(StepOf(session, {50, 51}));
    EXPECT_TRUE(step.ok()) << step.status();
    return step.ok() ? step->logits : std::vector<float>{};
  }

  // Those of a new session with the same past.
  std::vector<float> LogitsAfter(const std::vector<Part>& parts) {
    const std::string session = harness_->CreateSession();
    for (const Part& part : parts) {
      EXPECT_TRUE(harness_->Step(StepOf(session, part.prompt)).ok());
      for (const int32_t token : part.drawn) {
        EXPECT_TRUE(harness_->Step(StepOf(session, {token})).ok());
      }
    }
    return LogitsAfter(session);
  }

  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    const absl::StatusOr<SessionPage> page =
        harness_->engine().ListSessions(100, "");
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) return ids;
    for (const SessionInfo& session : page->sessions) ids.push_back(session.id);
    return ids;
  }

  const TempDirectory directory_;
  std::unique_ptr<SessionStore> store_;
  std::unique_ptr<EngineHarness> harness_;
};

INSTANTIATE_TEST_SUITE_P(Stores, OldStoresTest,
                         testing::Values("format-2-killed", "format-2-stopped"),
                         [](const auto& instance) {
                           return instance.param == "format-2-killed"
                                      ? "Killed"
                                      : "Stopped";
                         });

TEST_P(OldStoresTest, TheirSessionsGoOn) {
  if (GetParam() == "format-2-stopped") {
    EXPECT_THAT(Ids(), ElementsAre("ended", "logged", "synced"));
  } else {
    // What was to be stored when the server ends in order is not there.
    EXPECT_THAT(Ids(), ElementsAre("logged", "synced"));
  }
  const absl::StatusOr<SessionInfo> logged =
      harness_->engine().GetSession("logged");
  ASSERT_TRUE(logged.ok()) << logged.status();
  EXPECT_EQ(logged->position, LengthOf(kLogged));
  EXPECT_EQ(logged->ttl, absl::Hours(720));
  EXPECT_THAT(logged->labels, ElementsAre(testing::Pair("kind", "chat")));
  EXPECT_EQ(harness_->Position("synced"), LengthOf(kSynced));

  const std::vector<float> as_logged = LogitsAfter(kLogged);
  const std::vector<float> as_synced = LogitsAfter(kSynced);
  // Else it would be nothing to be alike.
  ASSERT_GT(Difference(as_logged, as_synced), 1e-2);
  EXPECT_LT(Difference(LogitsAfter("logged"), as_logged), 1e-4);
  EXPECT_LT(Difference(LogitsAfter("synced"), as_synced), 1e-4);
}

TEST_P(OldStoresTest, TheirCheckpointsServe) {
  WorkRequest work = harness_->engine().RewindWork(
      {.checkpoint = CheckpointId("mark")}, std::make_shared<SessionInfo>());
  const Future<absl::Status> done =
      harness_->WorkAsync("synced", std::move(work));
  ASSERT_TRUE(done.Get().ok()) << done.Get();
  EXPECT_EQ(harness_->Position("synced"), LengthOf({kFirst}));
  EXPECT_LT(
      Difference(LogitsAfter("synced"), LogitsAfter(std::vector<Part>{kFirst})),
      1e-4);
}

}  // namespace
}  // namespace steadystate::old_stores_test
