#include "server/rpc/connection_conduct.h"

#include <algorithm>

namespace steadystate {
namespace {

// Resets that an answered call makes up for.
constexpr double kResetsPerAnswer = 4;

// What is received beside the bytes of messages, at most: headers of a call,
// what goes with each message either way, a part of each frame. More of these
// than usual: what is not forgiven adds up for as long as a connection has open
// calls.
constexpr uint64_t kBytesPerCall = 2 << 10;
constexpr uint64_t kBytesPerMessage = 64;
constexpr uint64_t kMessageBytesPerFrameByte = 256;
// What gRPC holds of one call, at most: a message that has not ended, and the
// window that is open for the next.
constexpr uint64_t kMessagesHeldPerCall = 2;

// The calls that have been reset, as far as can be told.
uint64_t Resets(const ConnectionActivity& activity, uint64_t may_be_open) {
  const uint64_t not_reset = activity.calls_answered + may_be_open;
  return std::max(activity.calls_reset, activity.calls_begun > not_reset
                                            ? activity.calls_begun - not_reset
                                            : 0);
}

uint64_t CallsOpen(const ConnectionActivity& activity,
                   const ConductLimits& limits) {
  return std::min(activity.calls_open(), limits.open_calls);
}

}  // namespace

std::optional<ConnectionCut> ConnectionConduct::Judge(
    Clock::time_point now, uint64_t bytes, const ConnectionActivity& activity,
    const ConductLimits& limits) {
  const std::chrono::duration<double> elapsed = now - last_time_.value_or(now);
  last_time_ = now;
  const auto answered =
      static_cast<double>(activity.calls_answered - last_.calls_answered);
  const uint64_t resets =
      std::max(Resets(activity, limits.open_calls), last_resets_);
  const auto reset = static_cast<double>(resets - last_resets_);
  last_resets_ = resets;
  const double made_up =
      kResetsPerAnswer * answered +
      static_cast<double>(limits.resets_per_second) * elapsed.count();
  resets_ = std::max(resets_ + reset - made_up, 0.0);
  CountUnfinished(bytes, activity, limits);
  if (activity != last_) bytes_at_progress_ = bytes;
  last_ = activity;
  if (resets_ > static_cast<double>(limits.resets)) {
    return ConnectionCut::kResets;
  }
  const uint64_t calls = std::max<uint64_t>(CallsOpen(activity, limits), 1);
  if (bytes - bytes_at_progress_ > calls * limits.bytes_per_call) {
    return ConnectionCut::kBytes;
  }
  return std::nullopt;
}

// Sums up what came since the last time less what was taken. Never below 0: who
// has much forgiven now cannot make use of that later. Nor more than the calls
// that are open can hold: nobody tells what gRPC has dropped of those that have
// ended, a message that was too long or that nobody wanted any more.
void ConnectionConduct::CountUnfinished(uint64_t bytes,
                                        const ConnectionActivity& activity,
                                        const ConductLimits& limits) {
  const uint64_t received = bytes - last_bytes_;
  last_bytes_ = bytes;
  const uint64_t taken = activity.bytes_taken - last_.bytes_taken;
  const uint64_t accounted =
      taken + taken / kMessageBytesPerFrameByte +
      kBytesPerCall * (activity.calls_begun - last_.calls_begun) +
      kBytesPerMessage * (activity.messages - last_.messages);
  unfinished_ += received;
  unfinished_ -= std::min(unfinished_, accounted);
  unfinished_ =
      std::min(unfinished_, kMessagesHeldPerCall * CallsOpen(activity, limits) *
                                limits.bytes_per_call);
}

}  // namespace steadystate
