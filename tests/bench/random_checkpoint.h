#ifndef STEADYSTATE_TESTS_BENCH_RANDOM_CHECKPOINT_H_
#define STEADYSTATE_TESTS_BENCH_RANDOM_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/dtype.h"
#include "tests/bench/shapes.h"

namespace steadystate::bench {

// Writes config.json and model.safetensors into a directory, which is made if
// it is not there. The same for the same seed everywhere, in a little memory
// whatever the size. ALREADY_EXISTS if the directory has a checkpoint,
// UNAVAILABLE if a file cannot be written.
absl::Status WriteRandomCheckpoint(const RandomModel& model, DType dtype,
                                   uint64_t seed, const std::string& directory);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_RANDOM_CHECKPOINT_H_
