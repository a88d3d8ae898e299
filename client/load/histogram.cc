#include "client/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace steadystate::client {

template <size_t kBits>
size_t HistogramOf<kBits>::BucketOf(uint64_t nanoseconds) {
  const uint64_t value = std::min(nanoseconds, kLimitNanoseconds - 1);
  const auto width = static_cast<size_t>(std::bit_width(value));
  if (width <= kBits) return value;
  // The leading bit and the kBits after it: 2^kBits to 2^(kBits+1) - 1.
  const size_t shift = width - kBits - 1;
  return (shift << kBits) + (value >> shift);
}

template <size_t kBits>
uint64_t HistogramOf<kBits>::MiddleOf(size_t bucket) {
  constexpr size_t kLinear = size_t{1} << kBits;
  if (bucket < 2 * kLinear) return bucket;
  const size_t shift = bucket / kLinear - 1;
  const uint64_t first = (kLinear + bucket % kLinear) << shift;
  return first + (uint64_t{1} << shift) / 2;
}

template <size_t kBits>
void HistogramOf<kBits>::Record(Nanoseconds duration, uint64_t times) {
  const auto value = static_cast<uint64_t>(
      std::max<Nanoseconds::rep>(duration.count(), Nanoseconds::rep{0}));
  buckets_[BucketOf(value)] += times;
  count_ += times;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

template <size_t kBits>
void HistogramOf<kBits>::Merge(const HistogramOf& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

template <size_t kBits>
auto HistogramOf<kBits>::max() const -> Nanoseconds {
  return Nanoseconds(static_cast<Nanoseconds::rep>(max_));
}

template <size_t kBits>
auto HistogramOf<kBits>::mean() const -> Nanoseconds {
  if (count_ == 0) return Nanoseconds(0);
  return Nanoseconds(std::llround(sum_ / static_cast<double>(count_)));
}

template <size_t kBits>
auto HistogramOf<kBits>::Quantile(double quantile) const -> Nanoseconds {
  if (count_ == 0) return Nanoseconds(0);
  const auto rank = std::max<uint64_t>(
      static_cast<uint64_t>(std::ceil(quantile * static_cast<double>(count_))),
      1);
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen < rank) continue;
    // The last bucket has no upper end; its samples are at most the largest.
    const uint64_t value = i + 1 == kBuckets ? max_ : MiddleOf(i);
    return Nanoseconds(static_cast<Nanoseconds::rep>(std::min(value, max_)));
  }
  return max();
}

template class HistogramOf<6>;
template class HistogramOf<3>;

}  // namespace steadystate::client
