#include "server/load_progress.h"

#include <utility>

namespace steadystate {

LoadProgress::LoadProgress(const Clock& clock, Say say)
    : clock_(clock), say_(std::move(say)), start_(clock.Now()), said_(start_) {}

void LoadProgress::Note(uint64_t read, uint64_t all) {
  const SteadyTime now = clock_.Now();
  if (now - said_ < kEvery) return;
  said_ = now;
  const double part = static_cast<double>(read) / static_cast<double>(all);
  say_(static_cast<int>(100 * part), now - start_);
}

}  // namespace steadystate
