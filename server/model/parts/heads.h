#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEADS_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

// A vector per row of a batch and head, where it lies. A stride of 0 makes all
// rows, or all heads, share one; `sharing` consecutive heads share one.
struct HeadRows {
  const float* data = nullptr;
  size_t row_stride = 0;
  size_t head_stride = 0;
  size_t sharing = 1;

  const float* At(size_t row, size_t head) const {
    return data + row * row_stride + head / sharing * head_stride;
  }
};

// How a layer is cut into heads.
struct HeadShape {
  size_t D = 0;  // hidden_size
  size_t H = 0;  // query heads
  size_t G = 0;  // key/value heads, divides H
  size_t K = 0;  // key width of a head
  size_t V = 0;  // value width of a head

  // What a family takes where the config is silent.
  struct Defaults {
    size_t num_heads = 4;
    double expand_k = 1;
    double expand_v = 1;
    bool grouped = true;  // num_kv_heads counts; else G = H
    // The tensor of [H K, D] that tells the width of keys.
    absl::string_view query = "q_proj.weight";
  };
};

// Reads num_heads, num_kv_heads, expand_k and expand_v as fla has them:
// K = int(D expand_k) / H, V likewise; or, as fla 0.6 rounds instead, to the
// nearest whole number where that is what the tensors have: `query` and
// o_proj.weight, [D, H V]. Errors name the key.
absl::StatusOr<HeadShape> ReadHeadShape(const MixerBuilder& from,
                                        const HeadShape::Defaults& defaults);

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

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEADS_H_
