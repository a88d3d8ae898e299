#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEAD_OUTPUT_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEAD_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// What happens to the heads' outputs before they are projected back:
//   y = norm(o, head by head) * act(gate), or with gate_first
//   y = norm(o * act(gate), head by head).
// Immutable; thread-safe.
struct HeadOutput {
  enum class NormKind : uint8_t { kNone, kRms, kLayer };

  size_t heads = 0;  // H
  size_t V = 0;      // width of a head
  NormKind norm = NormKind::kRms;
  float eps = 0;
  // f32[V], shared by the heads; or f32[H V]; or empty for ones.
  std::vector<float> weight{};
  // Of kLayer, f32[V] or f32[H V]; or empty for zeros.
  std::vector<float> bias{};
  // Nothing: no gate.
  std::optional<Activation> gate{};
  bool gate_first = false;

  // One row.
  //   o      f32[H V]  in/out
  //   gates  f32[H V]  in; unused without a gate
  void Apply(float* o, const float* gates) const;
};

// The head output of fla's gla, simple_gla and retnet: RMSNorm with the weight
// g_norm_swish_gate.weight or g_norm.weight, [V] (which of the names depends on
// fused kernels at training time; none if elementwise_affine is false), then
// the gate `act`, if there is one.
absl::StatusOr<HeadOutput> MakeGatedNorm(const MixerBuilder& from, size_t heads,
                                         size_t V,
                                         std::optional<Activation> act);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEAD_OUTPUT_H_
