#ifndef STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_
#define STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate::client {

// How requests of an open loop arrive at a rate.
enum class ArrivalProcess : uint8_t {
  kPoisson,   // as of users who know nothing of each other
  kConstant,  // at equal distances
};

// A part of a run within which the rate goes evenly from where it was to
// `rate`, in requests per second; at once if it takes no time.
struct Stage {
  absl::Duration duration;
  double rate = 0;
};

// "10s:5,30s:20": DURATION:RATE of each stage, beginning at a rate of 0.
// INVALID_ARGUMENT, for people, also if there are more than 100.
absl::StatusOr<std::vector<Stage>> ParseStages(absl::string_view text);

// As ParseStages takes it.
std::string ToString(const std::vector<Stage>& stages);

// How long they take together.
absl::Duration TotalDuration(const std::vector<Stage>& stages);

// The times of a trace: seconds since its beginning, one to a line, never
// falling. Empty lines and those that begin with '#' are passed over.
// INVALID_ARGUMENT, naming the line, also if there is none or if there are more
// than kMaxTraceTimes.
inline constexpr size_t kMaxTraceTimes = 1000000;
absl::StatusOr<std::vector<std::chrono::nanoseconds>> ParseTrace(
    absl::string_view text);

// Bounds of rates, in requests per second, and of times.
inline constexpr double kMaxRequestRate = 1e6;
inline constexpr absl::Duration kMaxLoadTime = absl::Hours(24 * 365);

// When requests arrive, counted from the beginning of a run.
// Thread-compatible.
class Arrivals {
 public:
  virtual ~Arrivals() = default;

  // The next arrival, which is never before the last one; nothing if there is
  // none.
  virtual std::optional<std::chrono::nanoseconds> Next() = 0;
};

// Of a rate, above 0, that stays. The same seed gives the same times.
std::unique_ptr<Arrivals> MakeRateArrivals(double rate, ArrivalProcess process,
                                           uint64_t seed);

// Of a rate that the stages change. `stages` outlives the object.
std::unique_ptr<Arrivals> MakeStageArrivals(const std::vector<Stage>& stages,
                                            ArrivalProcess process,
                                            uint64_t seed);

// Of a trace. `times` outlives the object.
std::unique_ptr<Arrivals> MakeTraceArrivals(
    const std::vector<std::chrono::nanoseconds>& times);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_
