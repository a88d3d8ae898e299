#include "server/engine/return_window.h"

#include <algorithm>

namespace steadystate {
namespace {

// A gap is so small a part of a batch's time,
constexpr size_t kGapShare = 16;
// is to bring so large a part of those awaited,
constexpr size_t kReturnShare = 8;
// and is not repeated more often.
constexpr size_t kMostGaps = 4;
// Below, the clock's and the scheduler's grain would make it much longer.
constexpr absl::Duration kLeastGap = absl::Microseconds(50);
// Above, who is not back is not about to be.
constexpr absl::Duration kMostGap = absl::Milliseconds(2);
constexpr size_t kMostSkipped = 63;

}  // namespace

void ReturnWindow::Open(absl::Duration time, size_t wanted) {
  gap_ = std::min(time / kGapShare, kMostGap);
  gaps_ = 0;
  there_ = 0;
  wanted_ = gap_ < kLeastGap ? 0 : wanted;
  if (wanted_ == 0 || skip_ == 0) return;
  --skip_;
  wanted_ = 0;
}

bool ReturnWindow::StaysOpen(size_t there) {
  if (wanted_ == 0) return false;
  const bool all = there >= wanted_;
  const bool some = (there - there_) * kReturnShare >= wanted_;
  if (gaps_ == 1) NoteFirstGap(all || some);
  if (all || gaps_ == kMostGaps || (gaps_ > 0 && !some)) return false;
  ++gaps_;
  there_ = there;
  return true;
}

void ReturnWindow::NoteFirstGap(bool worth_it) {
  misses_ = worth_it ? 0 : std::min(2 * misses_ + 1, kMostSkipped);
  skip_ = misses_;
}

}  // namespace steadystate
