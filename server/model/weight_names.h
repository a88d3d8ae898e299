#ifndef STEADYSTATE_SERVER_MODEL_WEIGHT_NAMES_H_
#define STEADYSTATE_SERVER_MODEL_WEIGHT_NAMES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace steadystate {

// Whether a projection has a bias beside its weight.
enum class Bias : uint8_t { kNone, kYes };

// What a checkpoint calls the matrices of a gated MLP, without ".weight", and
// whether each has a bias.
struct MlpNames {
  absl::string_view gate = "gate_proj";
  absl::string_view up = "up_proj";
  absl::string_view down = "down_proj";
  Bias bias = Bias::kNone;
};

// What is multiplied within a gated MLP: what goes into the activation, and
// what comes out of the whole; and what bounds the factors in between.
struct MlpScale {
  float gate = 1;
  float down = 1;
  // Of what the activation gives, from above, and of what it is multiplied by,
  // on both sides; 0: nothing does.
  float limit = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_WEIGHT_NAMES_H_
