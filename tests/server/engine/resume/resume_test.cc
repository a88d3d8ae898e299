// Goal: a generation that is interrupted, and goes on in a copy of its session,
// is to the byte what it would have been without: for every family of the
// registry, and every type that its states may be kept in. Method: a seeded
// generation with penalties, broken off some 130 times after one to five
// tokens; each time the session moves on to another engine, or another name, or
// its engine is killed, or tokens that came after are taken back, in one of the
// ways that there are. The same at once is
// what it must equal.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/model/conformance/sequence.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"

namespace steadystate {
namespace {

constexpr size_t kTokens = 400;

struct Case {
  std::string family;
  StateDType dtype = StateDType::kF32;
};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const std::string& family : AllFamilies()) {
    for (const StateDType dtype :
         {StateDType::kF32, StateDType::kBf16, StateDType::kInt16}) {
      cases.push_back({family, dtype});
    }
  }
  return cases;
}

class ResumeTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const absl::StatusOr<std::shared_ptr<const Model>> model =
        Model::Load({.path = GoldenFolder(GetParam().family),
                     .weight_dtype = DType::kF32,
                     .state_dtype = GetParam().dtype});
    if (absl::IsFailedPrecondition(model.status())) {
      GTEST_SKIP() << model.status().message();
    }
    ASSERT_TRUE(model.ok()) << model.status();
    // Where softmax layers have a cap, no longer than that.
    const uint64_t cap = (*model)->state_layout().context_cap();
    tokens_ = cap == 0 ? kTokens : std::min<size_t>(kTokens, cap - kPrompt - 1);
    model_ = *model;
    for (size_t i = 0; i < 2; ++i) StartEngine(i);
    for (size_t i = 0; i < kPrompt; ++i) {
      prompt_.push_back(
          static_cast<int32_t>(i * 7 % (*model)->description().vocab_size));
    }
  }

  void StartEngine(size_t i) {
    EngineOptions options;
    // A copy has room beside what is copied, and nobody else.
    options.state_memory_bytes =
        2 * SessionLayoutOf(*model_, options).charge_bytes();
    options.durability = Durability::kLog;
    harnesses_[i] =
        std::make_unique<EngineHarness>(options, model_, &stores_[i]);
  }

  // It leaves memory for the store; the next step wakes it.
  void Hibernate(const std::string& session) {
    for (const char* const other : {"one", "two"}) {
      // Who has been idle longest leaves: clocks of tests stand still.
      here().clock().Advance(absl::Milliseconds(1));
      here().CreateSession(other);
      Generate(here(), other, prompt_, 1);
    }
    EXPECT_EQ(here().engine().GetSession(session)->tier, SessionTier::kStored);
    for (const char* const other : {"one", "two"}) {
      EXPECT_TRUE(here().engine().DeleteSession(other).ok());
    }
  }

  void Restart() {
    EXPECT_EQ(here().engine().StoreSessions(absl::Minutes(1)), 0u);
    harnesses_[current_].reset();
    StartEngine(current_);
  }

  std::vector<int32_t> Generate(EngineHarness& harness,
                                const std::string& session,
                                std::vector<int32_t> prompt, size_t tokens) {
    GenerateRequest request =
        GenerateOf(session, std::move(prompt), uint64_t{tokens});
    request.ignore_eos = true;
    request.sampling.temperature = 1;
    request.sampling.seed = 5;
    request.sampling.frequency_penalty = 0.3f;
    const auto recorder = harness.Generate(std::move(request));
    EXPECT_TRUE(recorder->done().Get().ok()) << recorder->done().Get().status();
    std::vector<int32_t> drawn;
    for (const GeneratedToken& item : recorder->items()) {
      drawn.push_back(item.token);
    }
    return drawn;
  }

  void Do(EngineHarness& harness, WorkRequest work) {
    work.writer = harness.engine().NewWriter();
    Future<absl::Status> done;
    SubmitThen(harness.engine(), std::move(work),
               [done](const auto& end) { done.Set(end.status()); });
    EXPECT_TRUE(done.Get().ok()) << done.Get();
  }

  // By a snapshot, to the other engine.
  void Move(const std::string& from, const std::string& to) {
    auto exported = std::make_shared<Engine::Export>();
    WorkRequest work = here().engine().ExportWork(exported);
    work.session = from;
    Do(here(), std::move(work));
    current_ = 1 - current_;
    SessionOptions options;
    options.id = to;
    auto created = std::make_shared<SessionInfo>();
    Do(here(),
       here().engine().ImportWork(exported->snapshot, options, created));
    EXPECT_EQ(created->id, to);
    EXPECT_FALSE(created->other_numerics);
  }

  void Fork(const std::string& from, const std::string& to, bool as_it_was) {
    ForkOptions options;
    options.ids = {to};
    if (as_it_was) {
      options.at.position = here().Position(from);
      Generate(here(), from, {}, 1);
    }
    WorkRequest work =
        here().engine().ForkWork(options, std::make_shared<Forks>());
    work.session = from;
    Do(here(), std::move(work));
  }

  // Nothing is stored that was not before.
  void Kill() {
    harnesses_[current_].reset();
    StartEngine(current_);
  }

  // It draws some tokens more, which are taken back.
  void Rewind(const std::string& session) {
    const uint64_t position = here().Position(session);
    const uint64_t cap = model_->state_layout().context_cap();
    const uint64_t more = cap == 0 ? 3 : std::min<uint64_t>(cap - position, 3);
    if (more > 0) Generate(here(), session, {}, more);
    auto rewound = std::make_shared<SessionInfo>();
    WorkRequest work =
        here().engine().RewindWork({.position = position}, rewound);
    work.session = session;
    Do(here(), std::move(work));
    EXPECT_EQ(rewound->position, position);
  }

  // Interrupts the session in one of seven ways. -> what it is called then.
  std::string Interrupt(uint32_t way, const std::string& session,
                        const std::string& next) {
    if (way == 0) {
      Hibernate(session);
      return session;
    }
    if (way == 1) {
      Restart();
      return session;
    }
    if (way == 4) {
      Kill();
      return session;
    }
    if (way == 5) {
      Rewind(session);
      return session;
    }
    EngineHarness& before = here();
    if (way == 2) {
      Move(session, next);
    } else {
      Fork(session, next, way == 6);
    }
    EXPECT_TRUE(before.engine().DeleteSession(session).ok());
    return next;
  }

  EngineHarness& here() { return *harnesses_[current_]; }

  static constexpr size_t kPrompt = 20;
  std::shared_ptr<const Model> model_;
  MemoryStore stores_[2];
  std::unique_ptr<EngineHarness> harnesses_[2];
  size_t current_ = 0;
  size_t tokens_ = 0;
  std::vector<int32_t> prompt_;
};

INSTANTIATE_TEST_SUITE_P(Families, ResumeTest, testing::ValuesIn(AllCases()),
                         [](const auto& instance) {
                           return absl::StrCat(instance.param.family, "_",
                                               Name(instance.param.dtype));
                         });

TEST_P(ResumeTest, AGenerationGoesOnToTheByte) {
  here().CreateSession("whole");
  const std::vector<int32_t> whole =
      Generate(here(), "whole", prompt_, tokens_);
  std::mt19937 random(3);
  std::string session = "s0";
  here().CreateSession(session);
  std::vector<int32_t> parts = Generate(here(), session, prompt_, 1);
  for (size_t moves = 1; parts.size() < tokens_; ++moves) {
    session = Interrupt(static_cast<uint32_t>(random() % 7), session,
                        absl::StrCat("s", moves));
    const size_t more =
        std::min<size_t>(1 + random() % 5, tokens_ - parts.size());
    const std::vector<int32_t> drawn = Generate(here(), session, {}, more);
    parts.insert(parts.end(), drawn.begin(), drawn.end());
  }
  EXPECT_EQ(parts, whole);
}

}  // namespace
}  // namespace steadystate
