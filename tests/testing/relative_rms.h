#ifndef STEADYSTATE_TESTS_TESTING_RELATIVE_RMS_H_
#define STEADYSTATE_TESTS_TESTING_RELATIVE_RMS_H_

#include <cmath>

namespace steadystate {

// Two ways to cut a sequence into calls agree within this, with float32
// weights.
inline constexpr double kCutsAgree = 1e-5;

// The RMS of what two arrays differ by, over that of the second; infinite if
// they differ in length.
template <typename Floats>
double RelativeRms(const Floats& got, const Floats& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double error = 0;
  double size = 0;
  auto of_expected = expected.begin();
  for (const float value : got) {
    error += std::pow(double{value} - double{*of_expected}, 2);
    size += std::pow(double{*of_expected}, 2);
    ++of_expected;
  }
  return std::sqrt(error / size);
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_RELATIVE_RMS_H_
