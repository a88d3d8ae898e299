#ifndef STEADYSTATE_SERVER_ENGINE_RETURN_WINDOW_H_
#define STEADYSTATE_SERVER_ENGINE_RETURN_WINDOW_H_

#include <cstddef>

#include "absl/time/time.h"

namespace steadystate {

// How long the compute thread waits, when it has answered a decode batch, for
// those whom it has answered to come back with their next step.
//
// The client of a stream sends a step when it has the answer to the last one.
// If the first few to be back ran at once, the others would find the next batch
// gone, and from then on there would be two batches where one would do: each
// reads all weights, and each session waits for both.
//
// The window is open for as long as each sixteenth of a batch's time (2 ms at
// most) brings an eighth of those awaited, and for a quarter of that time at
// most: steps that arrive evenly, as from many clients that think, are fewer.
// Where the first sixteenth brings too few, the next batches are formed at
// once: one, three, seven of them, up to 63.
//
// Pure decisions: no threads, no clock. Thread-compatible.
class ReturnWindow {
 public:
  // A decode batch that took `time` has been answered. `wanted`: the sessions
  // that it left without a request, and those that had one waiting by then;
  // none if nobody was answered.
  void Open(absl::Duration time, size_t wanted);

  // `there` have a request waiting. True if the compute thread is to wait until
  // wanted() have, for gap() at most, and to ask again.
  bool StaysOpen(size_t there);

  size_t wanted() const { return wanted_; }
  absl::Duration gap() const { return gap_; }

 private:
  void NoteFirstGap(bool worth_it);

  size_t wanted_ = 0;
  absl::Duration gap_;
  size_t gaps_ = 0;    // since it was opened
  size_t there_ = 0;   // before the last one
  size_t skip_ = 0;    // batches that are not waited for
  size_t misses_ = 0;  // skip_ after the last first gap
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_RETURN_WINDOW_H_
