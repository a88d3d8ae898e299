#ifndef STEADYSTATE_SERVER_MODEL_PARTS_PROJECTION_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_PROJECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/scratch_plan.h"
#include "server/model/weight_names.h"
#include "server/model/workspace.h"

namespace steadystate {

// x[i] *= factor.
//   x  f32[n]  in/out
inline void Scale(float factor, size_t n, float* x) {
  if (factor == 1) return;
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

// Multiplies what heads put out by the sigmoid of one number each.
//   gates  f32[heads]    in/out: become the sigmoids
//   out    f32[heads d]  in/out
inline void GateHeads(size_t heads, size_t d, float* gates, float* out) {
  Activate(Activation::kSigmoid, heads, gates, gates);
  for (size_t head = 0; head < heads; ++head) {
    Scale(gates[head], d, out + head * d);
  }
}

// Rows of a matrix, `heads` times `rows` of them, of which each is taken
// `times` times in a row: what heads that share it would have of their own.
struct RepeatedRows {
  size_t heads = 0;
  size_t rows = 0;
  size_t times = 1;
};

// Rows of each of the blocks that a matrix consists of.
struct RowsOfEach {
  size_t blocks = 0;
  size_t block = 0;  // rows of a block
  size_t first = 0;  // of those taken, within the block
  size_t rows = 0;
  absl::string_view part = "";  // what IsWide knows them as, if not the tensor
};

// Gathers projections of one input, so that a single matrix product computes
// all of them. Lives while a mixer is made. With int4 weights those that IsWide
// (wide_weights.h) names have 8 bits.
class ProjectionStack {
 public:
  // `in` is the width of the input.
  ProjectionStack(const WeightScope& weights, size_t in)
      : weights_(weights), in_(in) {}

  // Takes `<name>.weight`, [rows, in], and perhaps `<name>.bias`, [rows].
  // Returns the first of the columns that it computes. Errors as
  // WeightStore::Take.
  absl::StatusOr<size_t> Add(absl::string_view name, size_t rows,
                             Bias bias = Bias::kNone);

  // The same of `<name>.weight`, [heads rows, in]; it computes heads rows times
  // columns.
  absl::StatusOr<size_t> AddRepeated(absl::string_view name, RepeatedRows rows,
                                     Bias bias = Bias::kNone);

  // The same of a part of each block of `<name>.weight`, [blocks, block, in].
  absl::StatusOr<size_t> AddOfEach(absl::string_view name,
                                   const RowsOfEach& rows,
                                   Bias bias = Bias::kNone);

  // Columns in all, so far.
  size_t columns() const { return columns_; }

  // in -> columns(). REQUIRES: something was added.
  absl::StatusOr<std::unique_ptr<Linear>> Pack(LinearFactory& linears) const;

 private:
  // A matrix as it lies in the file, and its bias, or zeros.
  struct Stored {
    TypedData matrix;
    std::vector<float> bias;
    bool wide = false;
  };
  absl::StatusOr<Stored> Take(absl::string_view name, size_t rows, Bias bias);
  void AddRows(const Stored& from, size_t first, size_t rows);

  WeightScope weights_;
  size_t in_;
  size_t columns_ = 0;
  bool biased_ = false;
  std::vector<WeightRows> parts_;
  std::vector<float> bias_;  // f32[columns_]
};

// A projection by itself: `<name>.weight`, [out, in].
absl::StatusOr<std::unique_ptr<Linear>> MakeProjection(
    const WeightScope& weights, absl::string_view name, size_t in, size_t out,
    LinearFactory& linears, Bias bias = Bias::kNone);

// A matrix of low rank, W_up W_down, whose W_down is part of a stack.
struct LowRank {
  size_t column = 0;  // the first of those that W_down computes
  size_t rank = 0;
  std::unique_ptr<Linear> up;  // rank -> out; null: there is none

  // y = W_up of what W_down has put out.
  //   fused  f32[rows, columns of the stack; stride]  in
  //   y      f32[rows, out; y_stride]                 overwritten
  void Expand(size_t rows, const float* fused, size_t stride, float* y,
              size_t y_stride, Workspace::Buffers& buffers) const;
};

// Adds `<down>.weight`, [rank, D], to the stack, whatever its rank, and takes
// `<up>.weight`, [heads rows, rank], as ProjectionStack::AddRepeated does.
absl::StatusOr<LowRank> TakeLowRank(const MixerBuilder& from,
                                    absl::string_view down,
                                    absl::string_view up, RepeatedRows out,
                                    Bias bias, ProjectionStack& stack);

// y = act(gate) * up, or with a limit above 0, min(act(gate), limit) * up', up'
// being up within [-limit, limit]. All f32[n]; y may be gate.
void ActivateGated(Activation activation, float limit, size_t n,
                   const float* gate, const float* up, float* y);

// y = b W_down (act(a W_gate x) * (W_up x)), plus biases, for each token by
// itself: no state. Its scale has a and b, and perhaps a limit as above; biases
// are multiplied, too.
class Mlp final : public Mixer {
 public:
  // Pulls the three matrices; also the older layout that has no up_proj and
  // both stacked in gate_proj, [2 I, D].
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      size_t intermediate_size, Activation activation,
      const MixerBuilder& builder, const MlpNames& names = {},
      const MlpScale& scale = {});

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;
  bool per_token() const override { return true; }

 private:
  Activation activation_ = Activation::kSilu;
  MlpScale scale_;
  std::unique_ptr<Linear> gate_up_;  // D -> 2 I, gate first
  std::unique_ptr<Linear> down_;     // I -> D
  RowSlice gate_up_rows_;            // 2 I
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_PROJECTION_H_
