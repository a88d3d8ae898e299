#ifndef STEADYSTATE_SERVER_MODEL_PARTS_PLAIN_MLP_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_PLAIN_MLP_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/scratch_plan.h"
#include "server/model/weight_names.h"

namespace steadystate {

// y = W_down act(W_up x), plus biases, for each token by itself: no state, no
// gate. Immutable; thread-safe.
class PlainMlp final : public Mixer {
 public:
  // Pulls up_proj and down_proj. Errors as WeightStore::Take.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      size_t intermediate_size, Activation activation, Bias bias,
      const MixerBuilder& builder);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;
  bool per_token() const override { return true; }

 private:
  Activation activation_ = Activation::kIdentity;
  std::unique_ptr<Linear> up_;    // D -> I
  std::unique_ptr<Linear> down_;  // I -> D
  RowSlice rows_;                 // I
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_PLAIN_MLP_H_
