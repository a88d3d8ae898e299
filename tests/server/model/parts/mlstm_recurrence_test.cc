// Goal: mLSTM's memory computes what its formula says, whatever the size of the
// gates, and however a sequence is cut: within rounding in chunks, to the bit
// where rows are steps; over a million tokens the stabiliser loses nothing.
// Method: random inputs against the formula in double; a state of one number
// whose decay is known in closed form.
#include "server/model/parts/mlstm_recurrence.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/chunk/token_pairs.h"
#include "tests/testing/part_harness.h"

namespace steadystate::mlstm_recurrence_test {
namespace {

constexpr uint64_t kSeed = 3;
constexpr size_t kHeads = 3, kK = 5, kV = 7, kRows = 40;
constexpr float kScale = 0.5f, kEps = 1e-6f;

const CheckpointContents kNoTensors = {.config = {{"model_type", "none"}},
                                       .tensors = {}};

// The inputs of a batch; gates of up to `gate` either way.
struct Batch {
  explicit Batch(float gate) {
    std::mt19937_64 random(kSeed);
    const auto fill = [&](std::vector<float>& values, float low, float high) {
      std::uniform_real_distribution<float> number(low, high);
      for (float& value : values) value = number(random);
    };
    fill(q, -1, 1);
    fill(k, -1, 1);
    fill(v, -1, 1);
    fill(log_input, -gate, gate);
    fill(log_forget, -gate, 0);
  }

  MlstmRecurrence::Inputs inputs() const {
    return {.q = {q.data(), kHeads * kK, kK},
            .k = {k.data(), kHeads * kK, kK},
            .v = {v.data(), kHeads * kV, kV},
            .log_input = {log_input.data(), kHeads, 1},
            .log_forget = {log_forget.data(), kHeads, 1}};
  }

  std::vector<float> q = std::vector<float>(kRows * kHeads * kK);
  std::vector<float> k = q;
  std::vector<float> v = std::vector<float>(kRows * kHeads * kV);
  std::vector<float> log_input = std::vector<float>(kRows * kHeads);
  std::vector<float> log_forget = log_input;
};

// The formula in double, without any stabiliser but the one that it has.
std::vector<double> Reference(const Batch& batch) {
  std::vector<double> out(kRows * kHeads * kV);
  std::vector<double> C(kHeads * kK * kV), n(kHeads * kK), m(kHeads);
  for (size_t i = 0; i < kRows * kHeads; ++i) {
    const size_t h = i % kHeads;
    const auto at = [](const std::vector<float>& values, size_t index) {
      return static_cast<double>(values[index]);
    };
    const double kept = at(batch.log_forget, i) + m[h];
    m[h] = std::max(kept, at(batch.log_input, i));
    const double forget = std::exp(kept - m[h]);
    const double input = std::exp(at(batch.log_input, i) - m[h]);
    double weight = 0;
    for (size_t a = 0; a < kK; ++a) {
      const double q = static_cast<double>(kScale) * at(batch.q, i * kK + a);
      const double k = input * at(batch.k, i * kK + a);
      n[h * kK + a] = forget * n[h * kK + a] + k;
      weight += q * n[h * kK + a];
      for (size_t b = 0; b < kV; ++b) {
        double& c = C[(h * kK + a) * kV + b];
        c = forget * c + k * at(batch.v, i * kV + b);
        out[i * kV + b] += q * c;
      }
    }
    const double denominator =
        std::max(std::abs(weight), std::exp(-m[h])) + static_cast<double>(kEps);
    for (size_t b = 0; b < kV; ++b) out[i * kV + b] /= denominator;
  }
  return out;
}

// The part's outputs when the rows are fed in pieces of `piece`.
std::vector<float> Feed(const Batch& batch, size_t piece) {
  PartHarness harness(kNoTensors);
  const auto recurrence = MlstmRecurrence::Make(
      harness.builder(),
      {.heads = kHeads, .K = kK, .V = kV, .scale = kScale, .eps = kEps});
  EXPECT_TRUE(recurrence.ok()) << recurrence.status();
  harness.Start(kRows, 2);
  std::vector<float> out(kRows * kHeads * kV);
  for (size_t row = 0; row < kRows; row += piece) {
    Segment segment = harness.segment(row, std::min(piece, kRows - row));
    segment.first_row = row;
    recurrence->Run({&segment, 1}, batch.inputs(), out.data(), kHeads * kV,
                    harness.buffers());
  }
  return out;
}

// Steps, pieces of which the last is one, chunks that end with a piece's end,
// and two that follow each other.
TEST(MlstmRecurrenceTest, AgreesWithTheFormulaForGatesOfAnySize) {
  SCOPED_TRACE(kSeed);
  for (const float gate : {1.0f, 15.0f, 300.0f}) {
    const Batch batch(gate);
    const std::vector<double> expected = Reference(batch);
    for (const size_t piece : {size_t{1}, size_t{7}, size_t{13}, kRows}) {
      const std::vector<float> out = Feed(batch, piece);
      for (size_t i = 0; i < out.size(); ++i) {
        // Near a zero of q . n the ratio magnifies the rounding of both sums.
        EXPECT_NEAR(static_cast<double>(out[i]), expected[i],
                    2e-5 * (1 + std::abs(expected[i])))
            << "gates up to " << gate << ", pieces of " << piece << ", element "
            << i;
      }
    }
  }
}

TEST(MlstmRecurrenceTest, CutsIntoStepsDoNotChangeABit) {
  SCOPED_TRACE(kSeed);
  const Batch batch(15);
  const std::vector<float> whole = Feed(batch, 1);
  for (size_t piece = 2; piece < kFewestChunkTokens; ++piece) {
    EXPECT_EQ(Feed(batch, piece), whole);
  }
}

TEST(MlstmRecurrenceTest, CutsBetweenChunksDoNotChangeABit) {
  SCOPED_TRACE(kSeed);
  const Batch batch(15);
  EXPECT_EQ(Feed(batch, kChunkTokens), Feed(batch, kRows));
}

// One token is put in, then a million others fade it by e^-1e-5 each; they put
// in e^-80, nothing. In a float the stabiliser would be off by 4e-3 at the end.
TEST(MlstmRecurrenceTest, TheStabiliserKeepsAMillionSmallDecays) {
  constexpr size_t kTokens = 1000000, kPiece = 1000;
  constexpr float kLogForget = -1e-5f;
  PartHarness harness(kNoTensors);
  const auto recurrence = MlstmRecurrence::Make(
      harness.builder(), {.heads = 1, .K = 1, .V = 1, .scale = 1, .eps = 0});
  ASSERT_TRUE(recurrence.ok()) << recurrence.status();
  harness.Start(kPiece);
  const std::vector<float> one(kPiece, 1.0f);
  std::vector<float> log_input(kPiece, 4.0f), log_forget(kPiece, kLogForget);
  std::vector<float> out(kPiece);
  const MlstmRecurrence::Inputs inputs = {
      .q = {one.data(), 1, 1},
      .k = {one.data(), 1, 1},
      .v = {one.data(), 1, 1},
      .log_input = {log_input.data(), 1, 1},
      .log_forget = {log_forget.data(), 1, 1}};
  Segment segment = harness.segment(0, 1);
  recurrence->Run({&segment, 1}, inputs, out.data(), 1, harness.buffers());
  std::fill(log_input.begin(), log_input.end(), -80.0f);
  for (size_t done = 0; done < kTokens; done += kPiece) {
    segment = harness.segment(done, kPiece);
    recurrence->Run({&segment, 1}, inputs, out.data(), 1, harness.buffers());
  }
  // C = n = 1 in units of e^m, and e^-m > 1 decides the denominator.
  const double m =
      4 + static_cast<double>(kTokens) * static_cast<double>(kLogForget);
  ASSERT_LT(m, 0);
  EXPECT_NEAR(static_cast<double>(out.back()) / std::exp(m), 1, 1e-6);
}

}  // namespace
}  // namespace steadystate::mlstm_recurrence_test
