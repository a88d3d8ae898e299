#ifndef STEADYSTATE_CLIENT_LOAD_SWEEP_H_
#define STEADYSTATE_CLIENT_LOAD_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/load/estimate.h"
#include "client/load/load.h"

namespace steadystate::client {

// What goes from one run to the next.
enum class SweepVariable : uint8_t {
  kNothing,  // the same run is repeated
  kRate,
  kSessions,
};

// "rate", "sessions" or "".
const char* VariableName(SweepVariable variable);

// Which runs to make.
struct SweepSpec {
  SweepVariable variable = SweepVariable::kNothing;
  std::vector<double> values;  // rising; empty: found as it goes
};

// Automatic sessions double up to here.
inline constexpr uint64_t kMostAutomaticSessions = 4096;

// "rate:1,2,4", "sessions:8,16", or either with "auto". INVALID_ARGUMENT, for
// people, also if there are more than 32 values or if they do not rise.
absl::StatusOr<SweepSpec> ParseSweep(absl::string_view text);

// The runs of one value.
struct SweepPoint {
  double value = 0;
  std::vector<LoadResult> runs;  // at least one
};

// What a sweep came to. Points are in the order of their values.
struct SweepResult {
  LoadOptions options;  // without the variable
  SweepSpec spec;
  uint64_t repeat = 1;  // runs of each point
  std::vector<SweepPoint> points;
  std::optional<LoadResult> calibration;  // a closed loop that rates come from
  std::optional<size_t> knee;             // of the points
  bool interrupted = false;
  bool complete = false;  // every run that was to be made was made
};

// One figure of a run.
struct Figure {
  const char* name;   // "tokens_per_second"
  const char* label;  // "generated tokens/s"
  bool more_is_better;
  bool seconds;  // a time
  double (*of)(const LoadResult& result);
};

// Those that runs are told apart by; goodput only if there is an objective.
std::vector<Figure> Figures(const LoadOptions& options);

// What the runs of a point say about a figure.
Estimate EstimateOf(const SweepPoint& point, const Figure& figure);

// True if the figures of every run say what they seem to, and every run met the
// objective.
bool Holds(const SweepPoint& point);

// What the knee is, for people.
std::string KneeRule(const SweepResult& result);

// The knee and what it is, for people, and whether points below it did not
// hold, as chance or a busy machine may bring. REQUIRES: a variable.
std::string DescribeKnee(const SweepResult& result);

// The knee, if there is one. Of rates, and of sessions with an objective: the
// last point that holds. Of sessions without one: the first that holds and has
// 95 % of the highest throughput of any.
std::optional<size_t> FindKnee(const SweepResult& result);

// The next value of an automatic sweep; nothing if it is over.
std::optional<double> NextValue(const SweepResult& result);

// Makes one run.
using LoadFunction =
    std::function<absl::StatusOr<LoadResult>(const LoadOptions& options)>;

// Makes the runs, one after the other; those of a point differ in their seeds.
// Ends early, with what it has, when a run was interrupted or the server is
// about to shut down. An error of a run ends it.
absl::StatusOr<SweepResult> RunSweep(const LoadOptions& options,
                                     const SweepSpec& spec, uint64_t repeat,
                                     const LoadFunction& run);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SWEEP_H_
