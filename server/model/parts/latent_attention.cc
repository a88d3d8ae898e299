// Of W_kvb, the half that makes keys goes over to the query and the other to
// the output:
//   q_n . k_n_j = (W_k^T q_n) . c_j,   sum_j p_j v_j = W_v (sum_j p_j c_j)
// so that it is attention of H queries to one key, [r, c], which is the value,
// too; what r adds to the output is left aside.
#include "server/model/parts/latent_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/model/parts/cached_attention.h"
#include "server/model/parts/projection.h"
#include "server/model/parts/query_key.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

// Rows of a matrix, [rows, columns], as those of another, [columns, rows].
struct Transposed {
  Transposed(TypedData from, size_t first, size_t rows, size_t columns)
      : size(SizeOf(from.dtype)), bytes(rows * columns * size) {
    const auto* const data =
        static_cast<const std::byte*>(from.data) + first * columns * size;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        std::memcpy(bytes.data() + (column * rows + row) * size,
                    data + (row * columns + column) * size, size);
      }
    }
  }

  size_t size;  // of an element
  std::vector<std::byte> bytes;
};

class LatentAttention final : public Mixer {
 public:
  LatentAttention(const LatentAttentionOptions& options, size_t hidden_size)
      : o_(options), D_(hidden_size) {}

  absl::Status TakeWeights(const MixerBuilder& from);
  absl::Status DeclareMemory(const MixerBuilder& from);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  // Where the parts of a batch lie.
  struct Parts {
    float* fused;     // f32[rows, columns_]
    float* queries;   // f32[rows, H, n + r; query_stride]: within fused, or not
    float* latent;    // f32[rows, H + 1, r + latent]: queries, then the key
    float* attended;  // f32[rows, H, r + latent]
    float* values;    // f32[rows, H, value]
    size_t query_stride;
  };

  absl::Status TakeInputs(const MixerBuilder& from);
  absl::Status TakeHeads(const MixerBuilder& from);
  Parts PartsOf(const RowScratch& scratch) const;
  // The queries of all heads, and the key.
  void ToLatents(size_t rows, const Parts& p,
                 Workspace::Buffers& buffers) const;
  // The heads' values of what was attended to.
  void FromLatents(size_t rows, const Parts& p,
                   Workspace::Buffers& buffers) const;

  size_t query_width() const { return o_.nope + o_.rope; }
  size_t key_width() const { return o_.rope + o_.latent; }

  const LatentAttentionOptions o_;
  const size_t D_;
  // Columns of the fused projection: of queries or what they are made from, of
  // what is kept, and of the gates.
  size_t query_ = 0, kept_ = 0, gate_ = 0, columns_ = 0;
  std::unique_ptr<Linear> fused_;    // D -> columns_
  std::unique_ptr<Linear> queries_;  // query_latent -> H (n + r), or null
  std::vector<float> query_norm_;    // f32[query_latent], or empty
  std::vector<float> norm_;          // f32[latent]
  std::vector<std::unique_ptr<Linear>> to_latent_;    // H of n -> latent
  std::vector<std::unique_ptr<Linear>> from_latent_;  // H of latent -> value
  std::unique_ptr<Linear> out_;                       // H value -> D
  RotaryRows rotary_;                                 // of queries and the key
  CachedAttention attention_;
  RowSlice fused_rows_, query_rows_, latent_rows_, attended_rows_, value_rows_;
};

absl::Status LatentAttention::TakeInputs(const MixerBuilder& from) {
  const Bias bias = o_.bias ? Bias::kYes : Bias::kNone;
  const size_t queries = o_.num_heads * query_width();
  ProjectionStack stack(from.weights, D_);
  if (o_.query_latent == 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(query_, stack.Add("q_proj", queries));
  } else {
    STEADYSTATE_ASSIGN_OR_RETURN(query_,
                                 stack.Add("q_a_proj", o_.query_latent, bias));
    STEADYSTATE_ASSIGN_OR_RETURN(
        query_norm_,
        from.weights.TakeFloats("q_a_layernorm.weight", {o_.query_latent}));
    STEADYSTATE_ASSIGN_OR_RETURN(
        queries_, MakeProjection(from.weights, "q_b_proj", o_.query_latent,
                                 queries, from.linears));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      kept_, stack.Add("kv_a_proj_with_mqa", o_.latent + o_.rope, bias));
  if (o_.gated) {
    STEADYSTATE_ASSIGN_OR_RETURN(gate_, stack.Add("g_proj", o_.num_heads));
  }
  columns_ = stack.columns();
  STEADYSTATE_ASSIGN_OR_RETURN(fused_, stack.Pack(from.linears));
  return absl::OkStatus();
}

absl::Status LatentAttention::TakeHeads(const MixerBuilder& from) {
  const size_t block = o_.nope + o_.value;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const TypedData expand,
      from.weights.Take("kv_b_proj.weight", {o_.num_heads * block, o_.latent}));
  for (size_t head = 0; head < o_.num_heads; ++head) {
    const Transposed keys(expand, head * block, o_.nope, o_.latent);
    STEADYSTATE_ASSIGN_OR_RETURN(
        to_latent_.emplace_back(),
        from.linears.Make(o_.nope, {{{.data = {keys.bytes.data(), expand.dtype},
                                      .rows = o_.latent}}}));
    const auto* const values =
        static_cast<const std::byte*>(expand.data) +
        (head * block + o_.nope) * o_.latent * SizeOf(expand.dtype);
    STEADYSTATE_ASSIGN_OR_RETURN(
        from_latent_.emplace_back(),
        from.linears.Make(
            o_.latent, {{{.data = {values, expand.dtype}, .rows = o_.value}}}));
  }
  return absl::OkStatus();
}

absl::Status LatentAttention::TakeWeights(const MixerBuilder& from) {
  STEADYSTATE_RETURN_IF_ERROR(TakeInputs(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      norm_, from.weights.TakeFloats("kv_a_layernorm.weight", {o_.latent}));
  STEADYSTATE_RETURN_IF_ERROR(TakeHeads(from));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(from.weights, o_.out, o_.num_heads * o_.value, D_,
                           from.linears, o_.bias ? Bias::kYes : Bias::kNone));
  return absl::OkStatus();
}

absl::Status LatentAttention::DeclareMemory(const MixerBuilder& from) {
  const size_t H = o_.num_heads;
  STEADYSTATE_ASSIGN_OR_RETURN(
      attention_,
      CachedAttention::Make(
          from, {.heads = H,
                 .kv_heads = 1,
                 .d = key_width(),
                 .scale = 1.0F / std::sqrt(static_cast<float>(query_width())),
                 .values_are_keys = true}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      rotary_, RotaryRows::Make(from,
                                {.heads = H + 1,
                                 .d = key_width(),
                                 .rotated = o_.rotary ? o_.rope : 0,
                                 .base = o_.rope_theta,
                                 .pairs = RotaryRows::Pairs::kInterleaved},
                                "qk_rope_head_dim"));
  RowScratchPlan plan(from.scratch);
  fused_rows_ = plan.Add(columns_);
  if (queries_ != nullptr) query_rows_ = plan.Add(H * query_width());
  latent_rows_ = plan.Add((H + 1) * key_width());
  attended_rows_ = plan.Add(H * key_width());
  value_rows_ = plan.Add(H * o_.value);
  return absl::OkStatus();
}

LatentAttention::Parts LatentAttention::PartsOf(
    const RowScratch& scratch) const {
  float* const fused = scratch[fused_rows_];
  Parts parts = {.fused = fused,
                 .queries = fused + query_,
                 .latent = scratch[latent_rows_],
                 .attended = scratch[attended_rows_],
                 .values = scratch[value_rows_],
                 .query_stride = columns_};
  if (queries_ != nullptr) {
    parts.queries = scratch[query_rows_];
    parts.query_stride = o_.num_heads * query_width();
  }
  return parts;
}

void LatentAttention::ToLatents(size_t rows, const Parts& p,
                                Workspace::Buffers& buffers) const {
  const size_t H = o_.num_heads;
  const size_t stride = (H + 1) * key_width();
  if (queries_ != nullptr) {
    buffers.ForRows(rows, o_.query_latent, [&](size_t row, size_t) {
      float* const low = p.fused + row * columns_ + query_;
      RmsNorm(o_.query_latent, low, query_norm_.data(), o_.norm_eps, low);
    });
    buffers.Project(*queries_, rows, p.fused + query_, columns_, p.queries,
                    p.query_stride);
  }
  for (size_t head = 0; head < H; ++head) {
    buffers.Project(*to_latent_[head], rows, p.queries + head * query_width(),
                    p.query_stride, p.latent + head * key_width() + o_.rope,
                    stride);
  }
  buffers.ForRows(rows, stride, [&](size_t row, size_t) {
    const float* const query = p.queries + row * p.query_stride + o_.nope;
    float* to = p.latent + row * stride;
    for (size_t head = 0; head < H; ++head, to += key_width()) {
      std::copy_n(query + head * query_width(), o_.rope, to);
    }
    const float* const kept = p.fused + row * columns_ + kept_;
    std::copy_n(kept + o_.latent, o_.rope, to);
    RmsNorm(o_.latent, kept, norm_.data(), o_.norm_eps, to + o_.rope);
  });
}

void LatentAttention::FromLatents(size_t rows, const Parts& p,
                                  Workspace::Buffers& buffers) const {
  const size_t H = o_.num_heads;
  for (size_t head = 0; head < H; ++head) {
    buffers.Project(*from_latent_[head], rows,
                    p.attended + head * key_width() + o_.rope, H * key_width(),
                    p.values + head * o_.value, H * o_.value);
  }
  if (!o_.gated) return;
  buffers.ForRows(rows, H * o_.value, [&](size_t row, size_t) {
    GateHeads(H, o_.value, p.fused + row * columns_ + gate_,
              p.values + row * H * o_.value);
  });
}

void LatentAttention::Forward(std::span<const Segment> segments, size_t rows,
                              const float* x, float* y,
                              Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const Parts p = PartsOf(buffers.OfRows(rows));
  const size_t H = o_.num_heads;
  const size_t stride = (H + 1) * key_width();
  buffers.Project(*fused_, rows, x, D_, p.fused, columns_);
  ToLatents(rows, p, buffers);
  if (o_.rotary) rotary_.Run(segments, p.latent, stride, buffers);
  attention_.Run(segments,
                 {.q = p.latent,
                  .q_stride = stride,
                  .k = p.latent + H * key_width(),
                  .kv_stride = stride,
                  .o = p.attended},
                 buffers);
  FromLatents(rows, p, buffers);
  buffers.Project(*out_, rows, p.values, H * o_.value, y, D_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Mixer>> MakeLatentAttention(
    const LatentAttentionOptions& options, const MixerBuilder& builder) {
  auto mixer = std::make_unique<LatentAttention>(options, builder.hidden_size);
  STEADYSTATE_RETURN_IF_ERROR(mixer->TakeWeights(builder));
  STEADYSTATE_RETURN_IF_ERROR(mixer->DeclareMemory(builder));
  return mixer;
}

}  // namespace steadystate
