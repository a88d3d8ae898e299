#ifndef STEADYSTATE_CLIENT_LOAD_HISTOGRAM_H_
#define STEADYSTATE_CLIENT_LOAD_HISTOGRAM_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace steadystate::client {

// Counts durations in buckets whose width is a fixed share of their value, so
// that any quantile is known to within a fixed share in a memory of fixed size,
// however many samples there are. Histograms of several streams add up without
// loss; their quantiles would not. Each power of two is cut in 2^kBits buckets.
// Thread-compatible.
template <size_t kBits>
class HistogramOf {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // Durations from here on (18 minutes) share the last bucket; negative ones
  // count as 0.
  static constexpr uint64_t kLimitNanoseconds = uint64_t{1} << 40;

  void Record(Nanoseconds duration, uint64_t times = 1);
  void Merge(const HistogramOf& other);

  uint64_t count() const { return count_; }

  // Exact. 0 if there is no sample.
  Nanoseconds max() const;
  Nanoseconds mean() const;

  // The smallest duration that the share `quantile` of the samples do not
  // exceed, to within 1/2^(kBits+1); 0 if there is no sample.
  // REQUIRES: 0 <= quantile <= 1.
  Nanoseconds Quantile(double quantile) const;

 private:
  // Below 2^kBits each nanosecond has its own bucket. The middle of a bucket is
  // within 1/2^(kBits+1) of its values.
  static constexpr size_t kOctaves = 40 - kBits;
  static constexpr size_t kBuckets = (kOctaves + 1) << kBits;

  static size_t BucketOf(uint64_t nanoseconds);
  static uint64_t MiddleOf(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

// Within 1 %, in 18 KB: the figures of a run.
using Histogram = HistogramOf<6>;
// Within 7 %, in 2 KB: points of a plot, of which there are many.
using CoarseHistogram = HistogramOf<3>;

extern template class HistogramOf<6>;
extern template class HistogramOf<3>;

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_HISTOGRAM_H_
