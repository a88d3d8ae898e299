// Goal: requests that ask the same have the same digest, others do not, and a
// digest means the same for ever. Method: every field changed alone; values
// written down.
#include "server/engine/request.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::request_test {
namespace {

template <typename R>
using Change = std::function<void(R&)>;

// Each change alone gives a digest of its own.
template <typename R>
void ExpectAllDiffer(const R& request, const std::vector<Change<R>>& changes) {
  std::set<RequestDigest> digests = {DigestOf(request)};
  for (size_t i = 0; i < changes.size(); ++i) {
    R changed = request;
    changes[i](changed);
    EXPECT_TRUE(digests.insert(DigestOf(changed)).second) << "change " << i;
  }
}

// What does not count.
template <typename R>
void ExpectSameOfAnother(const R& request) {
  R other = request;
  other.session = std::string("other");
  other.owner = std::string("somebody");
  other.writer = 7;
  other.client = 8;
  other.request_id = std::string("r");
  other.expected_position = 9;
  other.deadline = SteadyTime::FromZero(absl::Seconds(1));
  EXPECT_EQ(DigestOf(request), DigestOf(other));
}

std::vector<Change<SamplingParams>> SamplingChanges() {
  return {
      [](auto& s) {
        s.logit_bias = {{1, 2.0f}};
      },
      [](auto& s) {
        s.logit_bias = {{2, 1.0f}};
      },
      [](auto& s) { s.repetition_penalty = 1.5; },
      [](auto& s) { s.presence_penalty = 0.5; },
      [](auto& s) { s.frequency_penalty = 0.5; },
      [](auto& s) { s.penalty_window = 65; },
      [](auto& s) { s.temperature = 0; },
      [](auto& s) { s.top_k = 1; },
      [](auto& s) { s.top_p = 0.5; },
      [](auto& s) { s.min_p = 0.5; },
      [](auto& s) { s.seed = 1; },
  };
}

TEST(RequestDigestTest, OfStepsCountsAllTheyAskFor) {
  StepRequest step;
  step.tokens = {1, 2};
  ExpectSameOfAnother(step);
  std::vector<Change<StepRequest>> changes = {
      [](auto& s) { s.tokens = {1}; },
      [](auto& s) {
        s.tokens = {2, 1};
      },
      [](auto& s) {
        s.tokens.clear();
        s.embeddings = {1.0f, 2.0f};
      },
      [](auto& s) { s.outputs.logits = true; },
      [](auto& s) { s.outputs.hidden = true; },
      [](auto& s) { s.outputs.top_logprobs = 1; },
      [](auto& s) { s.outputs.sampling.emplace(); },
      [](auto& s) {
        s.outputs.sampling.emplace();
        s.outputs.text = true;
      },
  };
  for (const auto& change : SamplingChanges()) {
    changes.push_back(
        [change](auto& s) { change(s.outputs.sampling.emplace()); });
  }
  ExpectAllDiffer(step, changes);
}

TEST(RequestDigestTest, OfGenerationsCountsAllTheyAskFor) {
  GenerateRequest generate;
  generate.prompt = {1, 2};
  ExpectSameOfAnother(generate);
  std::vector<Change<GenerateRequest>> changes = {
      [](auto& g) { g.prompt = {1}; },
      [](auto& g) { g.seed_drawn = true; },
      [](auto& g) { g.max_tokens = 0; },
      [](auto& g) { g.max_tokens = 1; },
      [](auto& g) { g.stop_tokens = {1}; },
      [](auto& g) { g.ignore_eos = true; },
      [](auto& g) {
        g.stop_strings = {"a", "b"};
      },
      [](auto& g) { g.stop_strings = {"ab"}; },
      [](auto& g) { g.logprobs = 0; },
  };
  for (const auto& change : SamplingChanges()) {
    changes.push_back([change](auto& g) { change(g.sampling); });
  }
  ExpectAllDiffer(generate, changes);
  // A seed that the server draws is another one each time.
  generate.seed_drawn = true;
  GenerateRequest again = generate;
  again.sampling.seed = 1234;
  EXPECT_EQ(DigestOf(generate), DigestOf(again));
}

TEST(RequestDigestTest, OfScoreAndEmbedCountsAllTheyAskFor) {
  ScoreRequest score;
  score.tokens = {1, 2};
  ExpectSameOfAnother(score);
  ExpectAllDiffer<ScoreRequest>(
      score, {[](auto& s) { s.tokens = {1}; }, [](auto& s) { s.logits = true; },
              [](auto& s) { s.top_logprobs = 1; }});
  EmbedRequest embed;
  embed.tokens = {1, 2};
  ExpectSameOfAnother(embed);
  ExpectAllDiffer<EmbedRequest>(embed,
                                {[](auto& e) { e.tokens = {1}; },
                                 [](auto& e) {
                                   e.tokens.clear();
                                   e.embeddings = {1.0f};
                                 },
                                 [](auto& e) { e.pooling = Pooling::kLast; }});
}

// Records outlive the program that wrote them. The values are those that the
// library's binding for Python gives for the same bytes.
TEST(RequestDigestTest, IsTheSameForEver) {
  StepRequest step;
  step.tokens = {1, 2, 3};
  step.outputs.sampling.emplace().seed = 7;
  EXPECT_EQ(DigestOf(step),
            (RequestDigest{17859063966864628158ULL, 2506660318737756179ULL}));
  GenerateRequest generate;
  generate.prompt = {1, 2, 3};
  generate.stop_strings = {"stop"};
  EXPECT_EQ(DigestOf(generate),
            (RequestDigest{3024884971352140148ULL, 57459052848154765ULL}));
  ScoreRequest score;
  score.tokens = {1, 2, 3};
  EXPECT_EQ(DigestOf(score),
            (RequestDigest{18377799035513665189ULL, 5865431375020280942ULL}));
  EmbedRequest embed;
  embed.embeddings = {1.5f, -2.0f};
  EXPECT_EQ(DigestOf(embed),
            (RequestDigest{6020578794275268085ULL, 4857672562457100003ULL}));
}

}  // namespace
}  // namespace steadystate::request_test
