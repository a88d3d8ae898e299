#include "server/model/parts/gated_recurrence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/full_decay.h"
#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/normalizer.h"
#include "kernels/recurrence/packed_key_decay.h"
#include "kernels/state/packed_matrix.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// True if float32 is too coarse for a state: nothing fades, or a constant
// factor so near one that more than a million tokens add up, or that the
// factor's own rounding, compounded over as many tokens as it remembers, would
// be seen.
bool Grows(const GatedRecurrence::Options& options) {
  if (options.decay == Decay::kNone) return true;
  constexpr double kLeastLoss = 1e-6;
  constexpr double kTolerated = 1e-6;
  return std::ranges::any_of(options.constants, [](double factor) {
    const double loss = 1 - factor;
    const double rounded = static_cast<double>(static_cast<float>(factor));
    return loss < kLeastLoss || std::abs(rounded - factor) > kTolerated * loss;
  });
}

Decays DecaysOf(const HeadRows& high, const HeadRows& low, size_t row,
                size_t head, size_t stride = 1) {
  return {high.At(row, head), low.data == nullptr ? nullptr : low.At(row, head),
          stride};
}

// True if packed states can be advanced as they are.
bool HasPackedStep(const GatedRecurrence::Options& options, StateDType dtype) {
  const bool form =
      (options.decay == Decay::kScalar || options.decay == Decay::kKey) &&
      !options.bonus && options.query_heads == options.state_heads;
  return form && (dtype == StateDType::kBf16 ||
                  (dtype == StateDType::kInt16 &&
                   options.V % (kInt16GroupColumns / 2) == 0));
}

}  // namespace

absl::StatusOr<GatedRecurrence> GatedRecurrence::Make(
    const MixerBuilder& builder, Options options) {
  GatedRecurrence made;
  const size_t G = options.state_heads;
  const size_t K = options.K;
  const size_t V = options.V;
  std::vector<size_t> shape = {G, K, V};
  if (options.decay == Decay::kComplex) shape = {G, 2, K, V};
  made.options_ = std::move(options);
  made.grows_ = Grows(made.options_);
  if (made.grows_) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        made.growing_state_,
        builder.state.AddDoubleMatrices(builder.layer, "S", shape));
  } else {
    STEADYSTATE_ASSIGN_OR_RETURN(made.state_,
                                 HeadMatrices::Make(builder, "S", shape));
  }
  if (made.options_.normalizer_eps.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        made.sums_, builder.state.AddFixedDoubles(builder.layer, "Z", {G, K}));
  }
  made.fused_ =
      !made.grows_ && HasPackedStep(made.options_, made.state_.dtype());
  for (const double factor : made.options_.constants) {
    const auto nearest = static_cast<float>(factor);
    const double low = factor - static_cast<double>(nearest);
    made.alphas_.push_back(nearest);
    made.alphas_low_.push_back(static_cast<float>(low));
    if (made.grows_) {
      made.exact_alphas_.insert(made.exact_alphas_.end(), K, factor);
    }
  }
  made.ones_.assign(std::max(K, V), 1.0f);
  builder.scratch.Need(0, made.state_.scratch_floats());
  if (made.HasChunks()) builder.scratch.Need(0, made.PrepareChunks());
  return made;
}

void GatedRecurrence::Run(std::span<const Segment> segments,
                          const Inputs& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const size_t G = options_.state_heads;
  const size_t each = HeadsOfTask(segments, inputs, buffers.pool.size());
  const size_t tasks = (G + each - 1) / each;
  const auto run = [&](size_t i, size_t worker) {
    const size_t first = i % tasks * each;
    RunHeads(segments[i / tasks], {first, std::min(G, first + each)}, inputs,
             buffers.OfWorker(worker), out, out_stride);
  };
  buffers.pool.ParallelFor(segments.size() * tasks, run);
}

size_t GatedRecurrence::HeadsOfTask(std::span<const Segment> segments,
                                    const Inputs& inputs,
                                    size_t threads) const {
  // Heads that share keys and queries have scores in common. But for every
  // thread there should be a few tasks.
  const size_t sharing = std::min(inputs.q.sharing, inputs.k.sharing);
  const bool chunks = std::ranges::any_of(
      segments, [this](const Segment& segment) { return InChunks(segment); });
  if (!chunks) return 1;
  const size_t fair = segments.size() * options_.state_heads / (2 * threads);
  return std::clamp<size_t>(std::min(sharing, fair), 1, most_heads_);
}

void GatedRecurrence::RunHeads(const Segment& segment, Heads heads,
                               const Inputs& inputs, float* scratch, float* out,
                               size_t out_stride) const {
  if (InChunks(segment)) {
    RunChunks(segment, heads, inputs, scratch, out, out_stride);
    return;
  }
  for (size_t head = heads.first; head < heads.end; ++head) {
    RunHead(segment, head, inputs, scratch, out, out_stride);
  }
}

void GatedRecurrence::RunHead(const Segment& segment, size_t head,
                              const Inputs& inputs, float* scratch, float* out,
                              size_t out_stride) const {
  if (fused_ && segment.rows == 1) {
    return RunPacked(segment, head, inputs, scratch, out, out_stride);
  }
  float* const state = grows_ ? nullptr : state_.Open(segment, head, scratch);
  RunRows(segment, head, inputs, state, out, out_stride);
  if (!grows_) state_.Close(segment, head, scratch);
}

void GatedRecurrence::RunPacked(const Segment& segment, size_t head,
                                const Inputs& inputs, float* scratch,
                                float* out, size_t out_stride) const {
  const size_t row = segment.first_row;
  const Move move = MoveOf(inputs, row, head);
  const HeadToken token = TokenOf(move, inputs.q.At(row, head),
                                  out + row * out_stride + head * options_.V);
  const RoundingNoise noise = state_.MakeNoise(segment, head, scratch);
  if (state_.dtype() == StateDType::kBf16) {
    KeyDecayStepBf16(token, move.alpha, noise, state_.Bf16(segment, head));
  } else {
    KeyDecayStepInt16(token, move.alpha, noise, state_.Int16(segment, head),
                      state_.Exponents(segment, head));
  }
  if (options_.normalizer_eps.has_value()) {
    Normalize(move, token, sums_.In(segment.state) + head * options_.K);
  }
}

void GatedRecurrence::RunRows(const Segment& segment, size_t head,
                              const Inputs& inputs, float* state, float* out,
                              size_t out_stride) const {
  const Options& o = options_;
  const size_t group = o.query_heads / o.state_heads;
  double* sums = o.normalizer_eps.has_value()
                     ? sums_.In(segment.state) + head * o.K
                     : nullptr;
  for (size_t t = 0; t < segment.rows; ++t) {
    const size_t row = segment.first_row + t;
    Move move = {};
    if (segment.pass != Pass::kRead) move = MoveOf(inputs, row, head);
    for (size_t h = head * group; h < (head + 1) * group; ++h) {
      const HeadToken token =
          TokenOf(move, inputs.q.At(row, h), out + row * out_stride + h * o.V);
      // The first query head of a group moves the state, the others read it.
      if (move.k != nullptr) {
        StepRow(move, token, inputs, row, head, segment.state, state);
      } else {
        Read(token, head, segment.state, state);
      }
      if (sums != nullptr) Normalize(move, token, sums);
      move.k = nullptr;
    }
  }
}

HeadToken GatedRecurrence::TokenOf(const Move& move, const float* q,
                                   float* o) const {
  return {.K = options_.K,
          .V = options_.V,
          .scale = options_.scale,
          .q = q,
          .k = move.k,
          .v = move.v,
          .o = o};
}

GatedRecurrence::Move GatedRecurrence::MoveOf(const Inputs& inputs, size_t row,
                                              size_t head) const {
  Move move = {{ones_.data()},
               {ones_.data()},
               inputs.k.At(row, head),
               inputs.v.At(row, head)};
  switch (options_.decay) {
    case Decay::kNone:
      break;
    case Decay::kScalar:
      move.alpha =
          alphas_.empty()
              ? DecaysOf(inputs.alpha, inputs.alpha_low, row, head, 0)
              : Decays{alphas_.data() + head, alphas_low_.data() + head, 0};
      break;
    case Decay::kKey:
      move.alpha = DecaysOf(inputs.alpha, inputs.alpha_low, row, head);
      break;
    case Decay::kOuter:
    case Decay::kComplex:
      move.alpha = DecaysOf(inputs.alpha, inputs.alpha_low, row, head);
      move.beta = DecaysOf(inputs.beta, inputs.beta_low, row, head);
      break;
    case Decay::kValue:
    case Decay::kFull:
      move.beta = DecaysOf(inputs.beta, inputs.beta_low, row, head);
      break;
  }
  return move;
}

void GatedRecurrence::StepRow(const Move& move, const HeadToken& token,
                              const Inputs& inputs, size_t row, size_t head,
                              std::byte* session, float* state) const {
  const size_t K = options_.K;
  if (grows_) {
    const double* decay =
        exact_alphas_.empty() ? nullptr : exact_alphas_.data() + head * K;
    GrowingSumStep(token, decay,
                   growing_state_.In(session) + head * K * options_.V);
  } else if (options_.bonus) {
    BonusDecayStep(token, move.alpha, inputs.bonus.At(row, head), state);
  } else {
    Step(move, token, head, state);
  }
}

void GatedRecurrence::Step(const Move& move, const HeadToken& token,
                           size_t head, float* state) const {
  switch (options_.decay) {
    case Decay::kNone:
    case Decay::kScalar:
    case Decay::kKey:
      KeyDecayStep(token, move.alpha, state);
      break;
    case Decay::kValue:
    case Decay::kOuter:
      OuterDecayStep(token, move.alpha, move.beta, state);
      break;
    case Decay::kFull:
      FullDecayStep(token, options_.rate.data() + head * token.K * token.V,
                    move.beta.high, state);
      break;
    case Decay::kComplex:
      ComplexKeyDecayStep(token, move.alpha, move.beta, state);
      break;
  }
}

// Of a complex state the real parts, which come first.
void GatedRecurrence::Read(const HeadToken& token, size_t head,
                           std::byte* session, const float* state) const {
  if (grows_) {
    GrowingSumRead(token,
                   growing_state_.In(session) + head * token.K * token.V);
  } else {
    ReadState(token, state);
  }
}

void GatedRecurrence::Normalize(const Move& move, const HeadToken& token,
                                double* sums) const {
  const double weight =
      move.k != nullptr
          ? NormalizerStep(options_.K, move.alpha, token.q, move.k, sums)
          : NormalizerRead(options_.K, token.q, sums);
  const auto scale = static_cast<double>(options_.scale);
  const auto eps = static_cast<double>(*options_.normalizer_eps);
  const auto factor = static_cast<float>(1.0 / (scale * weight + eps));
  for (size_t j = 0; j < options_.V; ++j) token.o[j] *= factor;
}

}  // namespace steadystate
