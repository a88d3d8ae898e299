#ifndef STEADYSTATE_CLIENT_LOAD_ESTIMATE_H_
#define STEADYSTATE_CLIENT_LOAD_ESTIMATE_H_

#include <cstddef>
#include <optional>
#include <vector>

namespace steadystate::client {

// What repeated measurements of one quantity say about it.
struct Estimate {
  size_t count = 0;
  double mean = 0;
  double variance = 0;  // of one measurement; 0 if there are fewer than two
  // The true mean lies within mean +- half_width with a confidence of 95 %, if
  // measurements are independent and about normal. Absent for fewer than two.
  std::optional<double> half_width;
};

// By Student's distribution.
Estimate EstimateMean(const std::vector<double>& values);

// How far the difference of two means may be from the one that was measured, at
// 95 %, by Welch's test. Absent unless both have two measurements.
std::optional<double> DifferenceHalfWidth(const Estimate& a, const Estimate& b);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_ESTIMATE_H_
