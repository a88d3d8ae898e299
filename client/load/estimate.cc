#include "client/load/estimate.h"

#include <array>
#include <cmath>

namespace steadystate::client {
namespace {

// The 0.975 quantile of Student's distribution by degrees of freedom, 1 to 30.
constexpr std::array<double, 30> kStudent = {
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};
constexpr double kNormal = 1.960;

// Rounded down, which makes intervals rather too wide.
double Student(double degrees) {
  const auto whole = static_cast<size_t>(degrees);
  if (whole < 1) return kStudent.front();
  return whole <= kStudent.size() ? kStudent[whole - 1] : kNormal;
}

}  // namespace

Estimate EstimateMean(const std::vector<double>& values) {
  Estimate estimate;
  estimate.count = values.size();
  if (values.empty()) return estimate;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) estimate.mean += value / count;
  if (values.size() < 2) return estimate;
  for (const double value : values) {
    estimate.variance += std::pow(value - estimate.mean, 2) / (count - 1);
  }
  estimate.half_width =
      Student(count - 1) * std::sqrt(estimate.variance / count);
  return estimate;
}

std::optional<double> DifferenceHalfWidth(const Estimate& a,
                                          const Estimate& b) {
  if (a.count < 2 || b.count < 2) return std::nullopt;
  const auto counts =
      std::array{static_cast<double>(a.count), static_cast<double>(b.count)};
  const double of_a = a.variance / counts[0];
  const double of_b = b.variance / counts[1];
  if (of_a + of_b == 0) return 0;
  const double degrees =
      std::pow(of_a + of_b, 2) /
      (of_a * of_a / (counts[0] - 1) + of_b * of_b / (counts[1] - 1));
  return Student(degrees) * std::sqrt(of_a + of_b);
}

}  // namespace steadystate::client
