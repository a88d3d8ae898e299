// Goal: the delta rule and the general rank-one transition are computed as
// their formulas say, however rows are cut into calls and heads share keys:
// within rounding in chunks, to the bit where rows are steps. Method: random
// inputs against the formulas in double.
#include "server/model/parts/delta_recurrence.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::delta_recurrence_test {
namespace {

constexpr size_t kRows = 90, kHeads = 4, kKeyHeads = 2, kK = 5, kV = 7;
constexpr uint32_t kSeed = 5;
constexpr double kTolerance = 2e-6;  // for outputs up to 1

CheckpointContents NoTensors() {
  return {.config = {{"model_type", "none"}}, .tensors = {}};
}

// Uniform values, f32[rows, width].
std::vector<float> Random(std::mt19937& random, size_t width, float low,
                          float high) {
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(kRows * width);
  for (float& value : values) value = uniform(random);
  return values;
}

struct Inputs {
  explicit Inputs(uint32_t seed) : random(seed) {}

  std::mt19937 random;
  std::vector<float> q = Random(random, kKeyHeads* kK, -0.5f, 0.5f);
  std::vector<float> k = Random(random, kKeyHeads* kK, -0.4f, 0.4f);
  std::vector<float> v = Random(random, kHeads* kV, -1, 1);
  std::vector<float> beta = Random(random, kHeads, 0, 2);
  std::vector<float> alpha = Random(random, kHeads* kK, 0.3f, 1);
  std::vector<float> a = Random(random, kHeads* kK, -0.5f, 0.5f);
  std::vector<float> b = Random(random, kHeads* kK, -0.5f, 0.5f);

  HeadRows PerKeyHead(const std::vector<float>& x) const {
    return {x.data(), kKeyHeads * kK, kK, kHeads / kKeyHeads};
  }
  static HeadRows PerHead(const std::vector<float>& x, size_t width) {
    return {x.data(), kHeads * width, width};
  }
  // alpha of the kinds of decay: per key channel, the first of them, or 1.
  double Alpha(Decay decay, size_t row, size_t head, size_t i) const {
    if (decay == Decay::kNone) return 1;
    const size_t at = decay == Decay::kKey ? i : 0;
    return static_cast<double>(alpha[(row * kHeads + head) * kK + at]);
  }
  DeltaRecurrence::DeltaRule DeltaRule() const {
    return {.q = PerKeyHead(q),
            .k = PerKeyHead(k),
            .v = PerHead(v, kV),
            .beta = PerHead(beta, 1),
            .alpha = PerHead(alpha, kK)};
  }
  DeltaRecurrence::GeneralForm GeneralForm() const {
    return {.q = PerKeyHead(q),
            .k = PerKeyHead(k),
            .v = PerHead(v, kV),
            .a = PerHead(a, kK),
            .b = PerHead(b, kK),
            .alpha = PerHead(alpha, kK)};
  }
};

// S^T x, over the keys.
double Read(const std::vector<double>& S, size_t j,
            const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i < kK; ++i) sum += S[i * kV + j] * x[i];
  return sum;
}

std::vector<double> Slice(const std::vector<float>& x, size_t first) {
  return {x.begin() + static_cast<ptrdiff_t>(first),
          x.begin() + static_cast<ptrdiff_t>(first + kK)};
}

// The output of one head, f64[rows, V]. With `rank_one` the general form.
std::vector<double> Expected(const Inputs& in, size_t head, Decay decay,
                             double scale, bool rank_one) {
  std::vector<double> S(kK * kV), out;
  const size_t key_head = head / (kHeads / kKeyHeads);
  for (size_t row = 0; row < kRows; ++row) {
    const auto q = Slice(in.q, (row * kKeyHeads + key_head) * kK);
    const auto k = Slice(in.k, (row * kKeyHeads + key_head) * kK);
    const auto a = Slice(in.a, (row * kHeads + head) * kK);
    const auto b = Slice(in.b, (row * kHeads + head) * kK);
    const double beta = static_cast<double>(in.beta[row * kHeads + head]);
    for (size_t j = 0; j < kV; ++j) {
      const double v =
          static_cast<double>(in.v[(row * kHeads + head) * kV + j]);
      const double u = Read(S, j, a);
      for (size_t i = 0; i < kK; ++i) {
        S[i * kV + j] *= in.Alpha(decay, row, head, i);
      }
      const double error = beta * (v - Read(S, j, k));
      for (size_t i = 0; i < kK; ++i) {
        S[i * kV + j] += rank_one ? b[i] * u + k[i] * v : k[i] * error;
      }
      out.push_back(scale * Read(S, j, q));
    }
  }
  return out;
}

// What the part makes of the rows in pieces of `piece`, f32[rows, HV V].
template <typename Form>
std::vector<float> Run(const Form& form, Decay decay, float scale,
                       size_t piece) {
  PartHarness harness(NoTensors());
  const auto part = DeltaRecurrence::Make(
      harness.builder(),
      {.heads = kHeads, .K = kK, .V = kV, .scale = scale, .decay = decay});
  EXPECT_TRUE(part.ok()) << part.status();
  harness.Start(kRows, 2);
  std::vector<float> out(kRows * kHeads * kV);
  for (size_t row = 0; row < kRows; row += piece) {
    Segment segment = harness.segment(row, std::min(piece, kRows - row));
    segment.first_row = row;
    part->Run({&segment, 1}, form, out.data(), kHeads * kV, harness.buffers());
  }
  return out;
}

constexpr float kScale = 0.5f;

void ExpectOutput(const Inputs& in, Decay decay, bool rank_one,
                  const std::vector<float>& out) {
  for (size_t head = 0; head < kHeads; ++head) {
    const auto expected =
        Expected(in, head, decay, static_cast<double>(kScale), rank_one);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t row = i / kV;
      const float got = out[(row * kHeads + head) * kV + i % kV];
      ASSERT_NEAR(static_cast<double>(got), expected[i], kTolerance)
          << "head " << head << ", row " << row;
    }
  }
}

void ExpectAgrees(const Inputs& in, Decay decay, bool rank_one) {
  SCOPED_TRACE(static_cast<int>(decay));
  const auto run = [&](size_t piece) {
    return rank_one ? Run(in.GeneralForm(), decay, kScale, piece)
                    : Run(in.DeltaRule(), decay, kScale, piece);
  };
  const std::vector<float> out = run(kRows);
  if (rank_one) {
    EXPECT_EQ(run(1), out) << "fed row by row";
    EXPECT_EQ(run(7), out) << "fed in pieces";
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{40}, kRows}) {
    SCOPED_TRACE(piece);
    ExpectOutput(in, decay, rank_one, run(piece));
  }
}

class DeltaRecurrenceTest : public testing::Test {
 protected:
  DeltaRecurrenceTest() { RecordProperty("seed", kSeed); }
  const Inputs inputs_{kSeed};
};

TEST_F(DeltaRecurrenceTest, DeltaRuleFollowsItsFormula) {
  for (const Decay decay : {Decay::kNone, Decay::kScalar, Decay::kKey}) {
    ExpectAgrees(inputs_, decay, false);
  }
}

TEST_F(DeltaRecurrenceTest, GeneralFormFollowsItsFormula) {
  for (const Decay decay : {Decay::kNone, Decay::kScalar, Decay::kKey}) {
    ExpectAgrees(inputs_, decay, true);
  }
}

TEST_F(DeltaRecurrenceTest, UnitKeysReplaceWhatTheyHeld) {
  // With beta 1 and a key of length 1 the state answers the key with the value,
  // whatever it held before.
  PartHarness harness(NoTensors());
  const auto part =
      DeltaRecurrence::Make(harness.builder(), {.heads = 1, .K = 2, .V = 2});
  ASSERT_TRUE(part.ok()) << part.status();
  harness.Start(3);
  const std::vector<float> k = {1, 0, 0.6f, 0.8f, 1, 0};
  const std::vector<float> v = {3, -4, 5, 6, -7, 8};
  const std::vector<float> beta = {1, 1, 1};
  std::vector<float> out(6);
  const Segment segment = harness.segment(0, 3);
  part->Run({&segment, 1},
            DeltaRecurrence::DeltaRule{.q = {k.data(), 2, 0},
                                       .k = {k.data(), 2, 0},
                                       .v = {v.data(), 2, 0},
                                       .beta = {beta.data(), 1, 0}},
            out.data(), 2, harness.buffers());
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(out[i], v[i], 1e-5f);
}

}  // namespace
}  // namespace steadystate::delta_recurrence_test
