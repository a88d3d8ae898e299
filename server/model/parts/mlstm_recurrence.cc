#include "server/model/parts/mlstm_recurrence.h"

#include <algorithm>
#include <cmath>

#include "kernels/chunk/token_pairs.h"
#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/normalizer.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// What the gates of one token do to a head.
struct Gates {
  float forget;      // F, or nearly,
  float forget_low;  // and what that lacks
  float input;       // I
  double least;      // e^-m, the least denominator
};

// Moves the stabiliser m by one token.
Gates Stabilize(float log_input, float log_forget, double& m) {
  const double kept = static_cast<double>(log_forget) + m;
  const auto added = static_cast<double>(log_input);
  m = std::max(kept, added);
  const double forget = std::exp(kept - m);
  const auto nearest = static_cast<float>(forget);
  return {nearest, static_cast<float>(forget - static_cast<double>(nearest)),
          static_cast<float>(std::exp(added - m)), std::exp(-m)};
}

// key <- I k
void TakeKey(size_t K, float input, const float* k, float* key) {
  for (size_t i = 0; i < K; ++i) key[i] = input * k[i];
}

// Divides what a token has read, f32[V], by its keys' weight, scale q . n.
void Divide(const MlstmRecurrence::Options& options, double weight,
            double least, float* o) {
  const auto factor =
      static_cast<float>(1.0 / (std::max(std::abs(weight), least) +
                                static_cast<double>(options.eps)));
  for (size_t j = 0; j < options.V; ++j) o[j] *= factor;
}

}  // namespace

absl::StatusOr<MlstmRecurrence> MlstmRecurrence::Make(
    const MixerBuilder& builder, const Options& options) {
  MlstmRecurrence made;
  made.options_ = options;
  const size_t H = options.heads;
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.memory_,
      HeadMatrices::Make(builder, "C", {H, options.K, options.V}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.normalizer_,
      builder.state.AddFixedDoubles(builder.layer, "n", {H, options.K}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      made.stabilizer_, builder.state.AddFixedDoubles(builder.layer, "m", {H}));
  WorkerScratchPlan plan(builder.scratch);
  made.room_ = made.memory_.PlanRoom(plan);
  made.at_ = {.q = plan.Add(kChunkTokens * options.K),
              .k = plan.Add(kChunkTokens * options.K),
              .v = plan.Add(kChunkTokens * options.V),
              .scalar = ScalarChunkPlaces::Plan(options.K, options.V, plan)};
  return made;
}

// The rule of one head over a segment.
class MlstmRecurrence::Rule {
 public:
  // `key` is f32[K] scratch.
  Rule(const MlstmRecurrence& of, const Segment& segment, size_t head,
       const Batch& batch, float* memory, float* key)
      : o_(of.options_),
        inputs_(batch.inputs),
        out_(batch.out),
        memory_(memory),
        sums_(of.normalizer_.In(segment.state) + head * o_.K),
        m_(of.stabilizer_.In(segment.state)[head]),
        head_(head),
        key_(key) {}

  void Take(size_t row) {
    gates_ = Stabilize(*inputs_.log_input.At(row, head_),
                       *inputs_.log_forget.At(row, head_), m_);
    TakeKey(o_.K, gates_.input, inputs_.k.At(row, head_), key_);
  }
  void Move(size_t row, size_t head) {
    const float* q = inputs_.q.At(row, head);
    const Decays decay = {&gates_.forget, &gates_.forget_low, 0};
    float* o = out_.At(row, head);
    KeyDecayStep({.K = o_.K,
                  .V = o_.V,
                  .scale = o_.scale,
                  .q = q,
                  .k = key_,
                  .v = inputs_.v.At(row, head),
                  .o = o},
                 decay, memory_);
    const double weight = static_cast<double>(o_.scale) *
                          NormalizerStep(o_.K, decay, q, key_, sums_);
    Divide(o_, weight, gates_.least, o);
  }

 private:
  const Options& o_;
  const Inputs& inputs_;
  const HeadOutputs& out_;
  float* const memory_;
  double* const sums_;
  double& m_;
  const size_t head_;
  float* const key_;
  Gates gates_{};
};

// The gates of a chunk's tokens.
struct MlstmRecurrence::ChunkGates {
  float forget[kChunkTokens];
  float forget_low[kChunkTokens];
  double least[kChunkTokens];
};

void MlstmRecurrence::TakeGates(const Inputs& inputs, const RowChunk& chunk,
                                size_t head, ChunkGates& gates,
                                float* keys) const {
  const size_t K = options_.K;
  double& m = stabilizer_.In(chunk.segment.state)[head];
  for (size_t t = 0; t < chunk.L; ++t) {
    const size_t row = chunk.first_row + t;
    const Gates of = Stabilize(*inputs.log_input.At(row, head),
                               *inputs.log_forget.At(row, head), m);
    gates.forget[t] = of.forget;
    gates.forget_low[t] = of.forget_low;
    gates.least[t] = of.least;
    TakeKey(K, of.input, inputs.k.At(row, head), keys + t * K);
  }
}

void MlstmRecurrence::RunChunk(const Batch& batch, const RowChunk& chunk,
                               size_t head, float* memory,
                               const WorkerScratch& scratch) const {
  const Options& o = options_;
  const Inputs& in = batch.inputs;
  ChunkGates gates;
  TakeGates(in, chunk, head, gates, scratch[at_.k]);
  const ChunkRows k = {scratch[at_.k], o.K};
  const ChunkRows q = chunk.Pack(in.q, head, o.K, scratch[at_.q]);
  const ChunkRows v = chunk.Pack(in.v, head, o.V, scratch[at_.v]);
  const Fading fading =
      ChunkFading(chunk.L, {gates.forget, 1}, {gates.forget_low, 1},
                  scratch[at_.scalar.fading]);
  TransposeKeys(chunk.L, o.K, k, scratch[at_.scalar.keys]);
  RunScalarChunk({.L = chunk.L,
                  .K = o.K,
                  .V = o.V,
                  .scale = o.scale,
                  .fading = fading,
                  .q = q,
                  .k = k,
                  .v = v,
                  .state = memory,
                  .o = batch.out.At(chunk.first_row, head),
                  .o_stride = batch.out.row_stride},
                 at_.scalar, scratch);
  double* const sums = normalizer_.In(chunk.segment.state) + head * o.K;
  for (size_t t = 0; t < chunk.L; ++t) {
    const double weight =
        static_cast<double>(o.scale) *
        NormalizerStep(o.K, {&gates.forget[t], &gates.forget_low[t], 0},
                       q.At(t), k.At(t), sums);
    Divide(o, weight, gates.least[t], batch.out.At(chunk.first_row + t, head));
  }
}

void MlstmRecurrence::Run(std::span<const Segment> segments,
                          const Inputs& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const Batch batch = {inputs, {out, out_stride, options_.V}};
  const HeadLoop loop(segments, options_.heads);
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    const auto [segment, head, end] = loop[task];
    const OpenHeadMatrix memory(memory_, segment, head, room_, scratch);
    if (segment.rows < kFewestChunkTokens) {
      RunSteps(
          segment, head, 1,
          Rule(*this, segment, head, batch, memory.data(), scratch[at_.k]));
      return;
    }
    ForChunks(segment, kChunkTokens, [&, head = head](const RowChunk& chunk) {
      RunChunk(batch, chunk, head, memory.data(), scratch);
    });
  });
}

}  // namespace steadystate
