#include "client/load/tally.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "steadystate/error.h"

namespace steadystate::client {

size_t Histogram::BucketOf(uint64_t nanoseconds) {
  const uint64_t value = std::min(nanoseconds, kLimitNanoseconds - 1);
  const auto width = static_cast<size_t>(std::bit_width(value));
  if (width <= kBits) return value;
  // The leading bit and the kBits after it: 2^kBits to 2^(kBits+1) - 1.
  const size_t shift = width - kBits - 1;
  return (shift << kBits) + (value >> shift);
}

uint64_t Histogram::MiddleOf(size_t bucket) {
  constexpr size_t kLinear = size_t{1} << kBits;
  if (bucket < 2 * kLinear) return bucket;
  const size_t shift = bucket / kLinear - 1;
  const uint64_t first = (kLinear + bucket % kLinear) << shift;
  return first + (uint64_t{1} << shift) / 2;
}

void Histogram::Record(Nanoseconds duration, uint64_t times) {
  const auto value = static_cast<uint64_t>(
      std::max<Nanoseconds::rep>(duration.count(), Nanoseconds::rep{0}));
  buckets_[BucketOf(value)] += times;
  count_ += times;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value) * static_cast<double>(times);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

Histogram::Nanoseconds Histogram::max() const {
  return Nanoseconds(static_cast<Nanoseconds::rep>(max_));
}

Histogram::Nanoseconds Histogram::mean() const {
  if (count_ == 0) return Nanoseconds(0);
  return Nanoseconds(std::llround(sum_ / static_cast<double>(count_)));
}

Histogram::Nanoseconds Histogram::Quantile(double quantile) const {
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

std::string ErrorName(const absl::Status& status) {
  const auto details = GetErrorDetails(status);
  return details ? details->reason : absl::StatusCodeToString(status.code());
}

void Tally::CountError(const absl::Status& status) {
  auto& errors = GetErrorDetails(status) ? server_errors : client_errors;
  ++errors[ErrorName(status)];
  if (&errors == &client_errors &&
      (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status))) {
    ++given_up;
  }
}

void Tally::CountUnanswered(LoadTime intended, LoadTime now,
                            const Window& window) {
  if (!window.Contains(intended)) return;
  ++window_unanswered;
  time_to_first_token.Record(now - intended);
  request.Record(now - intended);
}

void Tally::Merge(const Tally& other) {
  begun += other.begun;
  completed += other.completed;
  failed += other.failed;
  cut += other.cut;
  of_unknown_extent += other.of_unknown_extent;
  drawn_tokens += other.drawn_tokens;
  absorbed.prompt += other.absorbed.prompt;
  absorbed.generated += other.absorbed.generated;
  for (const auto& [reason, count] : other.server_errors) {
    server_errors[reason] += count;
  }
  for (const auto& [reason, count] : other.client_errors) {
    client_errors[reason] += count;
  }
  given_up += other.given_up;
  window_completed += other.window_completed;
  window_failed += other.window_failed;
  window_unanswered += other.window_unanswered;
  window_drawn_tokens += other.window_drawn_tokens;
  window_prompt_tokens += other.window_prompt_tokens;
  time_to_first_token.Merge(other.time_to_first_token);
  inter_token.Merge(other.inter_token);
  request.Merge(other.request);
  server_queue.Merge(other.server_queue);
  server_compute.Merge(other.server_compute);
}

}  // namespace steadystate::client
