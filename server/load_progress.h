#ifndef STEADYSTATE_SERVER_LOAD_PROGRESS_H_
#define STEADYSTATE_SERVER_LOAD_PROGRESS_H_

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace steadystate {

// Says now and then how far the loading of a model is: gigabytes take a while,
// and a server that says nothing looks as if it hung. Thread-compatible.
class LoadProgress {
 public:
  using Say = std::function<void(int percent, absl::Duration since_start)>;

  // Nothing is said of what takes less.
  static constexpr absl::Duration kEvery = absl::Seconds(5);

  // Starts now. The clock outlives it.
  LoadProgress(const Clock& clock, Say say);

  // So much has been read, of `all` >= 1.
  void Note(uint64_t read, uint64_t all);

 private:
  const Clock& clock_;
  const Say say_;
  const SteadyTime start_;
  SteadyTime said_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_LOAD_PROGRESS_H_
