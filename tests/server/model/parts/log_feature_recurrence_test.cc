// Goal: sums of exponentials of any size give the ratio that they have in exact
// arithmetic. Method: against doubles with all keys kept, shifted by the
// largest exponent; exponents of several hundred, also of one sign only.
#include "server/model/parts/log_feature_recurrence.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::log_feature_recurrence_test {
namespace {

using Readout = LogFeatureRecurrence::Readout;

constexpr size_t kTokens = 12, kQueryHeads = 2, F = 5, V = 3;
constexpr uint64_t kSeed = 17;

struct Inputs {
  Inputs(double center, double width) {
    std::mt19937 random(kSeed);
    std::uniform_real_distribution<double> unit(-1, 1);
    const auto exponents = [&](size_t n) {
      std::vector<float> x(n);
      // Multiples of 1/8 are exact in float: what is tested are the sums.
      for (float& e : x) {
        e = static_cast<float>(std::round(8 * (center + width * unit(random))) /
                               8);
      }
      return x;
    };
    q = exponents(kTokens * kQueryHeads * F);
    k = exponents(kTokens * F);
    for (size_t i = 0; i < kTokens * V; ++i) {
      v.push_back(static_cast<float>(unit(random)));
    }
  }
  std::vector<float> q, k, v;
};

std::vector<float> RunPart(const Inputs& in, Readout readout,
                           std::vector<Pass> passes) {
  PartHarness harness({.config = {{"model_type", "none"}}, .tensors = {}});
  auto part =
      LogFeatureRecurrence::Make(harness.builder(), {.query_heads = kQueryHeads,
                                                     .state_heads = 1,
                                                     .F = F,
                                                     .V = V,
                                                     .readout = readout});
  EXPECT_TRUE(part.ok()) << part.status();
  harness.Start(kTokens);
  std::vector<float> out(kTokens * kQueryHeads * V);
  for (const Pass pass : passes) {
    const Segment segments[] = {harness.segment(0, kTokens, pass)};
    part->Run(segments,
              {.q = {in.q.data(), kQueryHeads * F, F},
               .k = {in.k.data(), F, F},
               .v = {in.v.data(), V, V}},
              out.data(), kQueryHeads * V, harness.buffers());
  }
  return out;
}

// Over the tokens before `end`: sum_s e^{x_s} v_s / sum_s e^{x_s}.
std::vector<double> SoftAverage(const std::vector<double>& x,
                                const Inputs& in) {
  const double largest = *std::max_element(x.begin(), x.end());
  std::vector<double> o(V, 0.0);
  double sum = 0;
  for (size_t s = 0; s < x.size(); ++s) {
    const double weight = std::exp(x[s] - largest);
    sum += weight;
    for (size_t j = 0; j < V; ++j) {
      o[j] += weight * static_cast<double>(in.v[s * V + j]);
    }
  }
  for (double& y : o) y /= sum;
  return o;
}

// log sum_c e^{q_c + k_c}, for the ratio.
double LogSimilarity(const float* q, const float* k) {
  std::vector<double> x(F);
  for (size_t c = 0; c < F; ++c) {
    x[c] = static_cast<double>(q[c]) + static_cast<double>(k[c]);
  }
  const double largest = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double y : x) sum += std::exp(y - largest);
  return largest + std::log(sum);
}

std::vector<double> ExactRatio(const Inputs& in, size_t t, size_t h,
                               size_t end) {
  std::vector<double> x(end);
  for (size_t s = 0; s < end; ++s) {
    x[s] = LogSimilarity(in.q.data() + (t * kQueryHeads + h) * F,
                         in.k.data() + s * F);
  }
  return SoftAverage(x, in);
}

std::vector<double> ExactEachFeature(const Inputs& in, size_t t, size_t h,
                                     size_t end) {
  std::vector<double> o(V, 0.0);
  for (size_t c = 0; c < F; ++c) {
    std::vector<double> x(end);
    for (size_t s = 0; s < end; ++s) {
      x[s] = static_cast<double>(in.k[s * F + c]);
    }
    const std::vector<double> average = SoftAverage(x, in);
    const auto q = static_cast<double>(in.q[(t * kQueryHeads + h) * F + c]);
    for (size_t j = 0; j < V; ++j) o[j] += q * average[j];
  }
  return o;
}

TEST(LogFeatureRecurrenceTest, RatiosSurviveExponentsOfAnySize) {
  SCOPED_TRACE(kSeed);
  const double centers[] = {0, 400, -400};
  for (const double center : centers) {
    for (const double width : {1.0, 300.0}) {
      SCOPED_TRACE(testing::Message() << center << " +- " << width);
      const Inputs in(center, width);
      const std::vector<float> out =
          RunPart(in, Readout::kRatio, {Pass::kCausal});
      for (size_t t = 0; t < kTokens; ++t) {
        for (size_t h = 0; h < kQueryHeads; ++h) {
          const auto exact = ExactRatio(in, t, h, t + 1);
          for (size_t j = 0; j < V; ++j) {
            EXPECT_NEAR(static_cast<double>(out[(t * kQueryHeads + h) * V + j]),
                        exact[j], 1e-6);
          }
        }
      }
    }
  }
}

TEST(LogFeatureRecurrenceTest, EachFeatureHasItsOwnAverage) {
  SCOPED_TRACE(kSeed);
  const Inputs in(0, 300);
  const std::vector<float> out =
      RunPart(in, Readout::kEachFeature, {Pass::kCausal});
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t h = 0; h < kQueryHeads; ++h) {
      const auto exact = ExactEachFeature(in, t, h, t + 1);
      for (size_t j = 0; j < V; ++j) {
        EXPECT_NEAR(static_cast<double>(out[(t * kQueryHeads + h) * V + j]),
                    exact[j], 300 * F * 1e-6);
      }
    }
  }
}

TEST(LogFeatureRecurrenceTest, ABidirectionalPassSeesEveryToken) {
  SCOPED_TRACE(kSeed);
  const Inputs in(-100, 200);
  const std::vector<float> out =
      RunPart(in, Readout::kRatio, {Pass::kAbsorb, Pass::kRead});
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t h = 0; h < kQueryHeads; ++h) {
      const auto exact = ExactRatio(in, t, h, kTokens);
      for (size_t j = 0; j < V; ++j) {
        EXPECT_NEAR(static_cast<double>(out[(t * kQueryHeads + h) * V + j]),
                    exact[j], 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::log_feature_recurrence_test
