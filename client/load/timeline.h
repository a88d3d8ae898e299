#ifndef STEADYSTATE_CLIENT_LOAD_TIMELINE_H_
#define STEADYSTATE_CLIENT_LOAD_TIMELINE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/load/histogram.h"

namespace steadystate::client {

// What happened in one part of the time measured.
struct TimelineSlot {
  uint64_t drawn_tokens = 0;            // that arrived in it
  uint64_t due = 0;                     // open loop: requests
  uint64_t completed = 0;               // requests that ended in it
  uint64_t failed = 0;                  // the same
  CoarseHistogram time_to_first_token;  // of requests that were due in it
  CoarseHistogram inter_token;          // of gaps that began in it

  void Merge(const TimelineSlot& other);
};

// How a run went over time, in slots of equal length: at most kMaxSlots, which
// become twice as long whenever a run is longer than they reach. Timelines of
// several streams add up. Thread-compatible.
class Timeline {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  static constexpr size_t kMaxSlots = 60;
  static constexpr Nanoseconds kShortest = std::chrono::milliseconds(250);

  // The slot of what happened so long after the beginning; of what happened
  // before it, the first.
  TimelineSlot& At(Nanoseconds since_begin);

  void Merge(const Timeline& other);

  Nanoseconds slot_length() const { return slot_length_; }
  const std::vector<TimelineSlot>& slots() const { return slots_; }

 private:
  // Makes slots twice as long, in half their number.
  void Coarsen();

  Nanoseconds slot_length_ = kShortest;
  std::vector<TimelineSlot> slots_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_TIMELINE_H_
