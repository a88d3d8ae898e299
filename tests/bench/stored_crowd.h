#ifndef STEADYSTATE_TESTS_BENCH_STORED_CROWD_H_
#define STEADYSTATE_TESTS_BENCH_STORED_CROWD_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tests/bench/report.h"
#include "tests/bench/session_crowd.h"

namespace steadystate::bench {

struct StoredCrowdOptions {
  std::string server;              // as ServerProcess::Start has it
  std::vector<std::string> flags;  // but for those of the store
  std::string directory;           // of the store: not there, or empty
  size_t resident = 1;             // sessions that the flags have memory for
  size_t wakes = 0;                // sessions that are woken each time
  CrowdOptions crowd;
};

// Sessions that memory does not hold at once: makes all of them, steps each,
// wakes some at random; ends the server in order and starts it anew, and wakes
// some again, all checked ones included, which are replayed alone at last, in
// sessions that never leave memory. One row of StoredCrowdColumns.
absl::StatusOr<nlohmann::json> MeasureStoredCrowd(
    const StoredCrowdOptions& options);

std::vector<Column> StoredCrowdColumns();

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STORED_CROWD_H_
