#ifndef STEADYSTATE_TESTS_BENCH_SHAPES_H_
#define STEADYSTATE_TESTS_BENCH_SHAPES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace steadystate::bench {

// How the values of a tensor are drawn.
enum class Draw : uint8_t {
  kUniform,          // in [low, high)
  kLogOfUniform,     // log of the same
  kInverseSoftplus,  // x with softplus(x) = e^u, u in [low, high)
};

// A tensor of a random checkpoint.
struct RandomTensor {
  std::string name;
  std::vector<size_t> shape;
  Draw draw = Draw::kUniform;
  double low = 0;
  double high = 0;
  // Stored in the checkpoint's dtype; others, which are small, as f32.
  bool matrix = false;

  size_t count() const;
};

// A checkpoint of the shape of a known model: its config.json, and its tensors
// with values as training begins with, by which logits stay finite and states
// neither vanish nor explode.
struct RandomModel {
  nlohmann::json config;
  std::vector<RandomTensor> tensors;
};

// "mamba2-130m", ...
std::vector<std::string> ShapeNames();

// INVALID_ARGUMENT, naming those known, for another name.
absl::StatusOr<RandomModel> MakeShape(absl::string_view name);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_SHAPES_H_
