#include "tests/kernels/recurrence/step_checks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/pointwise/activation.h"

namespace steadystate {
namespace {

void CompareShape(const StepUnderTest& step, size_t K, size_t V,
                  Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "K " << K << " V " << V);
  const size_t elements = step.planes * K * V;
  std::vector<double> exact_state(elements, 0.0);
  Floats state(elements);
  Floats o(V);
  for (int t = 0; t < 5; ++t) {
    const StepInputs inputs = step.random(K, V, numbers);
    step.run(K, V, inputs, state.data(), o.data());
    const std::vector<double> exact = step.reference(inputs, exact_state);
    for (size_t j = 0; j < V; ++j) {
      ASSERT_NEAR(static_cast<double>(o[j]), exact[j],
                  step.o_tolerance * std::sqrt(static_cast<double>(K)))
          << t << " " << j;
    }
  }
  for (size_t i = 0; i < elements; ++i) {
    ASSERT_NEAR(static_cast<double>(state[i]), exact_state[i],
                step.state_tolerance)
        << i;
  }
}

// Column j of f32[rows, V].
Floats Column(const Floats& matrix, size_t V, size_t j) {
  Floats column(matrix.size() / V);
  for (size_t i = 0; i < column.size(); ++i) column[i] = matrix[i * V + j];
  return column;
}

StepInputs ColumnOf(const StepInputs& inputs, size_t V, size_t j) {
  StepInputs column;
  for (const Floats& keys : inputs.of_keys) column.of_keys.push_back(keys);
  for (const Floats& values : inputs.of_values) {
    column.of_values.push_back(Column(values, V, j));
  }
  for (const Floats& elements : inputs.of_elements) {
    column.of_elements.push_back(Column(elements, V, j));
  }
  return column;
}

}  // namespace

void ExpectStepMatchesItsReference(const StepUnderTest& step, uint64_t seed) {
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t K : {1u, 5u, 11u, 16u, 64u, 100u}) {
    for (const size_t V : {1u, 5u, 11u, 16u, 64u, 100u}) {
      CompareShape(step, K, V, numbers);
    }
  }
  for (size_t n = 1; n <= 35; ++n) CompareShape(step, 3, n, numbers);
  for (const auto& [K, V] :
       {std::pair<size_t, size_t>{128, 256}, {256, 130}, {5, 515}}) {
    CompareShape(step, K, V, numbers);
  }
}

void ExpectColumnsAreIndependent(const StepUnderTest& step, uint64_t seed) {
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t K = 17;
  constexpr size_t V = 207;  // every block width on every target
  const StepInputs inputs = step.random(K, V, numbers);
  const Floats before = numbers.Uniform(step.planes * K * V, -1.0f, 1.0f);
  Floats state(before);
  Floats o(V);
  step.run(K, V, inputs, state.data(), o.data());
  for (size_t j = 0; j < V; ++j) {
    Floats column = Column(before, V, j);
    float alone = 0;
    step.run(K, 1, ColumnOf(inputs, V, j), column.data(), &alone);
    EXPECT_TRUE(SameBits(o[j], alone)) << j;
    for (size_t i = 0; i < column.size(); ++i) {
      EXPECT_TRUE(SameBits(state[i * V + j], column[i])) << i << " " << j;
    }
  }
}

void ExpectSaturatedGatesAreRight(const StepUnderTest& step, uint64_t seed) {
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t K = 6;
  constexpr size_t V = 37;
  constexpr int kSteps = 10000;
  const size_t elements = step.planes * K * V;
  std::vector<double> exact_state(elements, 0.0);
  std::vector<double> exact;
  Floats state(elements);
  Floats o(V);
  double largest = 1.0;
  for (int t = 0; t < kSteps; ++t) {
    const StepInputs inputs = step.saturated(V, numbers);
    step.run(K, V, inputs, state.data(), o.data());
    exact = step.reference(inputs, exact_state);
    ASSERT_TRUE(AllFinite(V, o.data())) << t;
  }
  ASSERT_TRUE(AllFinite(elements, state.data()));
  for (const double s : exact_state) largest = std::max(largest, std::abs(s));
  // A state that forgets nothing adds up the rounding of every step.
  const double tolerance = largest * 6e-8 * std::sqrt(double{kSteps});
  for (size_t i = 0; i < elements; ++i) {
    ASSERT_NEAR(static_cast<double>(state[i]), exact_state[i], tolerance) << i;
  }
  for (size_t j = 0; j < V; ++j) {
    ASSERT_NEAR(static_cast<double>(o[j]), exact[j], K * tolerance) << j;
  }
}

void ExpectTwoPartsOfADecayCount(
    int64_t target,
    const std::function<void(Decays decay, float* state, float* o)>& fade,
    size_t planes) {
  constexpr int kSteps = 4000;
  const FadingShape shape;
  Floats high(shape.K);
  Floats low(shape.K);
  for (float& value : high) value = 1 - 0x1p-13f;
  for (float& value : low) value = 0x1.8p-26f;
  Floats state(planes * shape.K * shape.V);
  const size_t plane = shape.K * shape.V;
  for (size_t i = 0; i < plane; ++i) state[i] = 1 + static_cast<float>(i);
  const Floats before(state);
  Floats o(shape.V);
  for (int t = 0; t < kSteps; ++t) {
    fade({high.data(), low.data()}, state.data(), o.data());
  }
  // The first part alone is off by 9e-5.
  const bool fused = target <= HWY_AVX2;
  const double tolerance = fused ? 1e-5 : 2e-4;
  const double decay =
      static_cast<double>(high[0]) + static_cast<double>(low[0]);
  for (size_t i = 0; i < plane; ++i) {
    const double exact =
        static_cast<double>(before[i]) * std::pow(decay, kSteps);
    EXPECT_NEAR(static_cast<double>(state[i]) / exact, 1, tolerance) << i;
  }
}

}  // namespace steadystate
