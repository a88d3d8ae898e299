// Goal: every kind of decay, with and without normaliser, is its formula for
// all heads of a batch; heads that share a state read it; bidirectional passes
// see all tokens. Method: against the formula in doubles, written over
// elements.
#include "server/model/parts/gated_recurrence.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::gated_recurrence_test {
namespace {

using testing::HasSubstr;

constexpr size_t kTokens = 9, kQueryHeads = 4, kStateHeads = 2, K = 5, V = 6;
constexpr uint64_t kSeed = 3;

CheckpointContents NoTensors() {
  return {.config = {{"model_type", "none"}}, .tensors = {}};
}

std::vector<float> Uniform(size_t n, float low, float high,
                           std::mt19937& random) {
  std::uniform_real_distribution<float> numbers(low, high);
  std::vector<float> values(n);
  for (float& value : values) value = numbers(random);
  return values;
}

// Inputs of kTokens tokens, each array [token, head, width].
struct Inputs {
  explicit Inputs(std::mt19937& random)
      : q(Uniform(kTokens * kQueryHeads * K, -1, 1, random)),
        k(Uniform(kTokens * kStateHeads * K, 0, 1, random)),
        v(Uniform(kTokens * kStateHeads * V, -1, 1, random)),
        alpha(Uniform(kTokens * kStateHeads * K, 0.3f, 1, random)),
        beta(Uniform(kTokens * kStateHeads * V, 0.3f, 1, random)),
        bonus(Uniform(kStateHeads * K, -1, 1, random)),
        rate(Uniform(kStateHeads * K * V, 0, 2, random)) {}
  std::vector<float> q, k, v, alpha, beta, bonus, rate;

  GatedRecurrence::Inputs View() const {
    return {.q = {q.data(), kQueryHeads * K, K},
            .k = {k.data(), kStateHeads * K, K},
            .v = {v.data(), kStateHeads * V, V},
            .alpha = {alpha.data(), kStateHeads * K, K},
            .beta = {beta.data(), kStateHeads * V, V},
            .bonus = {bonus.data(), 0, K}};
  }
  double Q(size_t t, size_t h, size_t i) const {
    return static_cast<double>(q[(t * kQueryHeads + h) * K + i]);
  }
  double Key(size_t t, size_t g, size_t i) const {
    return static_cast<double>(k[(t * kStateHeads + g) * K + i]);
  }
  double Value(size_t t, size_t g, size_t j) const {
    return static_cast<double>(v[(t * kStateHeads + g) * V + j]);
  }
  double Alpha(size_t t, size_t g, size_t i) const {
    return static_cast<double>(alpha[(t * kStateHeads + g) * K + i]);
  }
  double Beta(size_t t, size_t g, size_t j) const {
    return static_cast<double>(beta[(t * kStateHeads + g) * V + j]);
  }
  double Rate(size_t g, size_t i, size_t j) const {
    return static_cast<double>(rate[(g * K + i) * V + j]);
  }
};

// The factor of an element at one token; real kinds only.
double Factor(const GatedRecurrence::Options& options, const Inputs& in,
              size_t t, size_t g, size_t i, size_t j) {
  switch (options.decay) {
    case Decay::kScalar:
      return options.constants.empty() ? in.Alpha(t, g, 0)
                                       : options.constants[g];
    case Decay::kKey:
      return in.Alpha(t, g, i);
    case Decay::kValue:
      return in.Beta(t, g, j);
    case Decay::kOuter:
      return in.Alpha(t, g, i) * in.Beta(t, g, j);
    case Decay::kFull:
      return std::exp(-in.Rate(g, i, j) * in.Beta(t, g, j));
    default:
      return 1;
  }
}

// o[t, h, j] = sum_i q_i sum_{s <= t} (factors after s) k_s v_s, over the
// denominator if there is one.
std::vector<double> Exact(const GatedRecurrence::Options& options,
                          const Inputs& in) {
  std::vector<double> out(kTokens * kQueryHeads * V);
  const size_t group = kQueryHeads / kStateHeads;
  for (size_t h = 0; h < kQueryHeads; ++h) {
    const size_t g = h / group;
    std::vector<double> S(K * V, 0.0), z(K, 0.0);
    for (size_t t = 0; t < kTokens; ++t) {
      double weight = 0;
      for (size_t i = 0; i < K; ++i) {
        z[i] = Factor(options, in, t, g, i, 0) * z[i] + in.Key(t, g, i);
        weight += in.Q(t, h, i) * z[i];
      }
      for (size_t j = 0; j < V; ++j) {
        double o = 0;
        for (size_t i = 0; i < K; ++i) {
          double& s = S[i * V + j];
          s = Factor(options, in, t, g, i, j) * s +
              in.Key(t, g, i) * in.Value(t, g, j);
          o += in.Q(t, h, i) * s;
        }
        const auto scale = static_cast<double>(options.scale);
        o *= scale;
        if (options.normalizer_eps.has_value()) {
          o /= scale * weight + static_cast<double>(*options.normalizer_eps);
        }
        out[(t * kQueryHeads + h) * V + j] = o;
      }
    }
  }
  return out;
}

// What the part puts out, fed in two pieces, with as many threads as told.
std::vector<float> RunPart(GatedRecurrence::Options options, const Inputs& in,
                           size_t threads) {
  options.query_heads = kQueryHeads;
  options.state_heads = kStateHeads;
  options.K = K;
  options.V = V;
  PartHarness harness(NoTensors());
  auto part = GatedRecurrence::Make(harness.builder(), options);
  EXPECT_TRUE(part.ok()) << part.status();
  harness.Start(kTokens, threads);
  std::vector<float> out(kTokens * kQueryHeads * V);
  Segment segments[] = {harness.segment(0, 4)};
  part->Run(segments, in.View(), out.data(), kQueryHeads * V,
            harness.buffers());
  segments[0] = harness.segment(4, kTokens - 4);
  segments[0].first_row = 4;
  part->Run(segments, in.View(), out.data(), kQueryHeads * V,
            harness.buffers());
  return out;
}

void ExpectNear(const std::vector<float>& got,
                const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(got[i]), expected[i],
                tolerance * (1 + std::abs(expected[i])))
        << i;
  }
}

void ExpectExact(const GatedRecurrence::Options& options,
                 const std::string& name) {
  SCOPED_TRACE(name);
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const Inputs in(random);
  GatedRecurrence::Options with_rate = options;
  if (options.decay == Decay::kFull) with_rate.rate = in.rate;
  const std::vector<float> out = RunPart(with_rate, in, 1);
  ExpectNear(out, Exact(options, in), 2e-6);
  EXPECT_EQ(RunPart(with_rate, in, 2), out) << "with two threads";
}

TEST(GatedRecurrenceTest, EveryDecayIsItsFormula) {
  ExpectExact({.scale = 0.5f, .decay = Decay::kNone}, "none");
  ExpectExact({.scale = 0.5f, .decay = Decay::kScalar}, "scalar");
  ExpectExact({.decay = Decay::kScalar, .constants = {0.5, 0.999999999}},
              "constant");
  ExpectExact({.scale = 0.5f, .decay = Decay::kKey}, "key");
  ExpectExact({.scale = 0.5f, .decay = Decay::kValue}, "value");
  ExpectExact({.scale = 0.5f, .decay = Decay::kOuter}, "outer");
  ExpectExact({.scale = 0.5f, .decay = Decay::kFull}, "full");
}

TEST(GatedRecurrenceTest, TheNormaliserDecaysLikeTheKeyAxis) {
  for (const Decay decay : {Decay::kNone, Decay::kScalar, Decay::kKey}) {
    ExpectExact({.scale = 0.5f, .decay = decay, .normalizer_eps = 8.0f},
                "normalised");
  }
}

TEST(GatedRecurrenceTest, ComplexDecaysTurnTheState) {
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  Inputs in(random);
  GatedRecurrence::Inputs view = in.View();
  const std::vector<float> imaginary =
      Uniform(kTokens * kStateHeads * K, -0.5f, 0.5f, random);
  view.beta = {imaginary.data(), kStateHeads * K, K};
  PartHarness harness(NoTensors());
  auto part =
      GatedRecurrence::Make(harness.builder(), {.query_heads = kQueryHeads,
                                                .state_heads = kStateHeads,
                                                .K = K,
                                                .V = V,
                                                .decay = Decay::kComplex});
  ASSERT_TRUE(part.ok()) << part.status();
  harness.Start(kTokens);
  std::vector<float> out(kTokens * kQueryHeads * V);
  const Segment segments[] = {harness.segment(0, kTokens)};
  part->Run(segments, view, out.data(), kQueryHeads * V, harness.buffers());

  std::vector<double> expected(out.size());
  for (size_t h = 0; h < kQueryHeads; ++h) {
    const size_t g = h / 2;
    std::vector<double> re(K * V), im(K * V);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t i = 0; i < K; ++i) {
        const double a = in.Alpha(t, g, i);
        const auto b =
            static_cast<double>(imaginary[(t * kStateHeads + g) * K + i]);
        for (size_t j = 0; j < V; ++j) {
          const double x = re[i * V + j], y = im[i * V + j];
          re[i * V + j] = a * x - b * y + in.Key(t, g, i) * in.Value(t, g, j);
          im[i * V + j] = a * y + b * x;
          expected[(t * kQueryHeads + h) * V + j] +=
              in.Q(t, h, i) * re[i * V + j];
        }
      }
    }
  }
  ExpectNear(out, expected, 2e-6);
}

TEST(GatedRecurrenceTest, ABonusWeighsTheOwnTokenBeforeTheUpdate) {
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const Inputs in(random);
  GatedRecurrence::Inputs view = in.View();
  PartHarness harness(NoTensors());
  auto part =
      GatedRecurrence::Make(harness.builder(), {.query_heads = kStateHeads,
                                                .state_heads = kStateHeads,
                                                .K = K,
                                                .V = V,
                                                .decay = Decay::kKey,
                                                .bonus = true});
  ASSERT_TRUE(part.ok()) << part.status();
  harness.Start(kTokens);
  std::vector<float> out(kTokens * kStateHeads * V);
  const Segment segments[] = {harness.segment(0, kTokens)};
  part->Run(segments, view, out.data(), kStateHeads * V, harness.buffers());

  std::vector<double> expected(out.size());
  for (size_t g = 0; g < kStateHeads; ++g) {
    std::vector<double> S(K * V);
    for (size_t t = 0; t < kTokens; ++t) {
      for (size_t i = 0; i < K; ++i) {
        const auto u = static_cast<double>(in.bonus[g * K + i]);
        for (size_t j = 0; j < V; ++j) {
          double& s = S[i * V + j];
          const double added = in.Key(t, g, i) * in.Value(t, g, j);
          expected[(t * kStateHeads + g) * V + j] +=
              in.Q(t, g, i) * (s + u * added);
          s = in.Alpha(t, g, i) * s + added;
        }
      }
    }
  }
  ExpectNear(out, expected, 2e-6);
}

TEST(GatedRecurrenceTest, ABidirectionalPassSeesEveryToken) {
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  const Inputs in(random);
  const GatedRecurrence::Options options = {.query_heads = kQueryHeads,
                                            .state_heads = kStateHeads,
                                            .K = K,
                                            .V = V,
                                            .normalizer_eps = 8.0f};
  PartHarness harness(NoTensors());
  auto part = GatedRecurrence::Make(harness.builder(), options);
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_TRUE(part->bidirectional());
  harness.Start(kTokens);
  std::vector<float> out(kTokens * kQueryHeads * V);
  for (const Pass pass : {Pass::kAbsorb, Pass::kRead}) {
    const Segment segments[] = {harness.segment(0, kTokens, pass)};
    part->Run(segments, in.View(), out.data(), kQueryHeads * V,
              harness.buffers());
  }
  // The last token sees all tokens in a causal pass, too.
  const std::vector<float> causal = RunPart(options, in, 1);
  const size_t last = (kTokens - 1) * kQueryHeads * V;
  for (size_t i = last; i < out.size(); ++i) {
    EXPECT_NEAR(out[i], causal[i], 2e-6f);
  }
  EXPECT_NE(out[0], causal[0]);
}

TEST(GatedRecurrenceTest, OnlySumsWithoutOrderAreBidirectional) {
  for (const Decay decay : {Decay::kScalar, Decay::kKey, Decay::kComplex}) {
    PartHarness harness(NoTensors());
    auto part = GatedRecurrence::Make(
        harness.builder(),
        {.query_heads = 1, .state_heads = 1, .K = 1, .V = 1, .decay = decay});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_FALSE(part->bidirectional());
  }
}

TEST(GatedRecurrenceTest, AStateTooLargeIsRefused) {
  PartHarness harness(NoTensors());
  const auto part =
      GatedRecurrence::Make(harness.builder(), {.query_heads = 1,
                                                .state_heads = 1,
                                                .K = size_t{1} << 31,
                                                .V = size_t{1} << 31});
  EXPECT_EQ(part.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(part.status().message(), HasSubstr("'S'"));
}

}  // namespace
}  // namespace steadystate::gated_recurrence_test
