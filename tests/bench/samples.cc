#include "tests/bench/samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/bench/random_bits.h"

namespace steadystate::bench {
namespace {

double QuantileOf(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const double rank = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<ptrdiff_t>(rank);
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[static_cast<size_t>(below)];
  const double part = rank - static_cast<double>(below);
  if (part == 0) return low;
  const double high =
      *std::min_element(values.begin() + below + 1, values.end());
  return low + part * (high - low);
}

}  // namespace

Samples::Samples(std::vector<double> values) : values_(std::move(values)) {}

void Samples::Add(double value) { values_.push_back(value); }

void Samples::Append(const Samples& other) {
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
}

double Samples::Quantile(double share) const {
  std::vector<double> values = values_;
  return QuantileOf(values, share);
}

Samples Samples::Times(double factor) const {
  Samples result = *this;
  for (double& value : result.values_) value *= factor;
  return result;
}

Samples Samples::Into(double numerator) const {
  Samples result = *this;
  for (double& value : result.values_) value = numerator / value;
  return result;
}

Samples Ratios(const Samples& numerators, const Samples& denominators) {
  const size_t pairs = std::min(numerators.size(), denominators.size());
  Samples ratios;
  for (size_t i = 0; i < pairs; ++i) {
    ratios.Add(numerators.values()[i] / denominators.values()[i]);
  }
  return ratios;
}

Interval BootstrapMedianRatio(const Samples& numerators,
                              const Samples& denominators, size_t resamples,
                              uint64_t seed) {
  const size_t pairs = numerators.size();
  std::vector<double> above(pairs);
  std::vector<double> below(pairs);
  Samples ratios;
  for (size_t i = 0; i < resamples; ++i) {
    for (size_t j = 0; j < pairs; ++j) {
      const size_t drawn = RandomBits(seed, i * pairs + j) % pairs;
      above[j] = numerators.values()[drawn];
      below[j] = denominators.values()[drawn];
    }
    ratios.Add(QuantileOf(above, 0.5) / QuantileOf(below, 0.5));
  }
  return {ratios.Quantile(0.025), ratios.Quantile(0.975)};
}

}  // namespace steadystate::bench
