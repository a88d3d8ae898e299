#ifndef STEADYSTATE_TESTS_TESTING_GOLDEN_CHECKPOINT_H_
#define STEADYSTATE_TESTS_TESTING_GOLDEN_CHECKPOINT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/model/model.h"
#include "tests/testing/checkpoint_writer.h"

namespace steadystate {

// Loads the checkpoint of a golden case (a folder of tests/golden) with other
// keys in its config.json: those of `changes` in place of its own. null stands
// as null.
absl::StatusOr<std::shared_ptr<const Model>> LoadGoldenWith(
    const std::string& golden_case, const nlohmann::json& changes);

// The checkpoint of a golden case, to be changed.
CheckpointContents ReadGolden(const std::string& golden_case);

// Loads a checkpoint, which is written into a directory of its own, in f32.
absl::StatusOr<std::shared_ptr<const Model>> LoadContents(
    const CheckpointContents& contents);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_GOLDEN_CHECKPOINT_H_
