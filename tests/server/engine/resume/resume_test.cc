// Goal: a generation that is interrupted, and goes on in a copy of its session,
// is to the byte what it would have been without: for every family of the
// registry, and every type that its states may be kept in. Method: seeded
// generations with penalties, each broken off some 130 times after one to five
// tokens. Each time the session moves on to another engine, or another name, or
// its engine is killed, or tokens that came after are taken back, or the client
// goes in the middle of a request and sends it again: in a random order, each
// way equally often. The same at once is what it must equal.
//
// STEADYSTATE_RESUME_TIMES says how often each way is taken, 16 if nothing
// does.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/model/conformance/sequence.h"
#include "tests/testing/environment_number.h"
#include "tests/testing/memory_store.h"

namespace steadystate::resume_test {
namespace {

constexpr size_t kTokens = 400;

// How a generation is interrupted.
enum class Way : uint8_t {
  kHibernate,
  kRestart,
  kMove,  // by a snapshot, to another engine
  kFork,
  kKill,
  kRewind,
  kForkAsItWas,  // at a position before the session's
  kTakeUp,       // a request whose client goes is sent again
};
constexpr size_t kWays = 8;

uint64_t Times() {
  return NumberFromEnvironment("STEADYSTATE_RESUME_TIMES", 16);
}

// Each way equally often.
std::vector<Way> AllWays(std::mt19937& random) {
  std::vector<Way> ways;
  for (size_t i = 0; i < kWays * Times(); ++i) {
    ways.push_back(static_cast<Way>(i % kWays));
  }
  std::shuffle(ways.begin(), ways.end(), random);
  return ways;
}

GenerateRequest RequestFor(const std::string& session,
                           std::vector<int32_t> prompt, size_t tokens) {
  GenerateRequest request =
      GenerateOf(session, std::move(prompt), uint64_t{tokens});
  request.ignore_eos = true;
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  request.sampling.frequency_penalty = 0.3f;
  return request;
}

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

  static std::vector<int32_t> TokensOf(Recorder<GenerateRequest>& recorder) {
    EXPECT_TRUE(recorder.done().Get().ok()) << recorder.done().Get().status();
    std::vector<int32_t> drawn;
    for (const GeneratedToken& item : recorder.items()) {
      drawn.push_back(item.token);
    }
    return drawn;
  }

  static std::vector<int32_t> Generate(EngineHarness& harness,
                                       const std::string& session,
                                       std::vector<int32_t> prompt,
                                       size_t tokens) {
    return TokensOf(
        *harness.Generate(RequestFor(session, std::move(prompt), tokens)));
  }

  // The same by a request that is cancelled when it has returned `before`
  // tokens, and then sent again.
  std::vector<int32_t> GenerateTwice(const std::string& session, size_t tokens,
                                     size_t before) {
    GenerateRequest request = RequestFor(session, {}, tokens);
    request.expected_position = here().Position(session);
    request.request_id = "cut";
    RequestId id = 0;
    std::shared_ptr<Recorder<GenerateRequest>> cut;
    {
      ComputeHold hold(here());
      cut = here().Generate(request, &id);
      cut->set_on_item([this, &id, before](size_t count) {
        if (count == before) here().engine().Cancel(id);
      });
    }
    // What it had returned by then may have been all.
    const auto& end = cut->done().Get();
    EXPECT_TRUE(end.ok() || ReasonOf(end.status()) == ErrorReason::kCancelled);
    const auto again = here().Generate(request);
    const std::vector<int32_t> drawn = TokensOf(*again);
    if (again->done().Get().ok()) {
      EXPECT_GE(again->done().Get()->replayed_tokens, before);
    }
    return drawn;
  }

  void Do(EngineHarness& harness, const std::string& session,
          WorkRequest work) {
    const absl::Status done = harness.Work(session, std::move(work));
    EXPECT_TRUE(done.ok()) << done;
  }

  // By a snapshot, to the other engine.
  void Move(const std::string& from, const std::string& to) {
    auto exported = std::make_shared<Engine::Export>();
    Do(here(), from, here().engine().ExportWork(exported));
    current_ = 1 - current_;
    SessionOptions options;
    options.id = to;
    auto created = std::make_shared<SessionInfo>();
    Do(here(), "",
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
    Do(here(), from,
       here().engine().ForkWork(options, std::make_shared<Forks>()));
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
    Do(here(), session,
       here().engine().RewindWork({.position = position}, rewound));
    EXPECT_EQ(rewound->position, position);
  }

  // -> what the session is called then.
  std::string Interrupt(Way way, const std::string& session,
                        const std::string& next) {
    EngineHarness& before = here();
    switch (way) {
      case Way::kHibernate:
        Hibernate(session);
        return session;
      case Way::kRestart:
        Restart();
        return session;
      case Way::kKill:
        Kill();
        return session;
      case Way::kRewind:
        Rewind(session);
        return session;
      case Way::kTakeUp:
        return session;
      case Way::kMove:
        Move(session, next);
        break;
      case Way::kFork:
      case Way::kForkAsItWas:
        Fork(session, next, way == Way::kForkAsItWas);
    }
    EXPECT_TRUE(before.engine().DeleteSession(session).ok());
    return next;
  }

  // A whole generation in pieces, each after the last of `ways`, which are
  // taken away, as long as there are some. -> what `name` is called then.
  std::string GenerateInPieces(std::string name, std::mt19937& random,
                               std::vector<Way>& ways,
                               std::vector<int32_t>& parts) {
    parts = Generate(here(), name, prompt_, 1);
    const std::string first = name;
    for (size_t moves = 1; parts.size() < tokens_ && !ways.empty(); ++moves) {
      const Way way = ways.back();
      ways.pop_back();
      name = Interrupt(way, name, absl::StrCat(first, "-", moves));
      const size_t more =
          std::min<size_t>(1 + random() % 5, tokens_ - parts.size());
      const std::vector<int32_t> drawn =
          way == Way::kTakeUp ? GenerateTwice(name, more, 1 + random() % more)
                              : Generate(here(), name, {}, more);
      parts.insert(parts.end(), drawn.begin(), drawn.end());
    }
    return name;
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
  EXPECT_TRUE(here().engine().DeleteSession("whole").ok());
  std::mt19937 random(3);
  std::vector<Way> ways = AllWays(random);
  for (size_t i = 0; !ways.empty(); ++i) {
    const std::string first = absl::StrCat("s", i);
    here().CreateSession(first);
    std::vector<int32_t> parts;
    const std::string last = GenerateInPieces(first, random, ways, parts);
    EXPECT_EQ(parts, std::vector<int32_t>(
                         whole.begin(),
                         whole.begin() + static_cast<ptrdiff_t>(parts.size())));
    EXPECT_TRUE(here().engine().DeleteSession(last).ok());
  }
}

}  // namespace
}  // namespace steadystate::resume_test
