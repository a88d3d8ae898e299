#ifndef STEADYSTATE_SERVER_MODEL_PARTS_HEAD_SHAPE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_HEAD_SHAPE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/mixer_builder.h"

namespace steadystate {

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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_HEAD_SHAPE_H_
