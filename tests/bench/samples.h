#ifndef STEADYSTATE_TESTS_BENCH_SAMPLES_H_
#define STEADYSTATE_TESTS_BENCH_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace steadystate::bench {

// Repeated measurements of one quantity. A machine that others use too makes
// outliers, so everything said about them is a quantile.
class Samples {
 public:
  Samples() = default;
  explicit Samples(std::vector<double> values);

  void Add(double value);
  void Append(const Samples& other);

  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }
  // In the order in which they came.
  const std::vector<double>& values() const { return values_; }

  // Between two samples as far as `share` lies between their ranks; 0 if there
  // is no sample.
  // REQUIRES: 0 <= share <= 1.
  double Quantile(double share) const;
  double Median() const { return Quantile(0.5); }

  // Each sample multiplied by `factor`, or divided into it.
  Samples Times(double factor) const;
  Samples Into(double numerator) const;

 private:
  std::vector<double> values_;
};

// Each sample of `numerators` over the one of `denominators` that was taken
// beside it; what has no partner is left out.
Samples Ratios(const Samples& numerators, const Samples& denominators);

struct Interval {
  double low = 0;
  double high = 0;
};

// The middle 95 % of the ratio of medians over `resamples` drawings with
// replacement (the percentile bootstrap of Efron 1979). Pairs are drawn
// together, for what disturbs one disturbs the other.
// REQUIRES: both have the same size, at least 1.
Interval BootstrapMedianRatio(const Samples& numerators,
                              const Samples& denominators, size_t resamples,
                              uint64_t seed);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_SAMPLES_H_
