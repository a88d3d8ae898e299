#include "server/model/parts/gated_recurrence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/growing_sum.h"
#include "kernels/recurrence/normalizer.h"
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

// A head's sum of keys over a segment, by which it divides what was read.
class GatedRecurrence::Normalizer {
 public:
  Normalizer(const GatedRecurrence& of, const Batch& batch,
             const Segment& segment, size_t head)
      : alpha_(batch.alpha),
        head_(head),
        eps_(static_cast<double>(*of.options_.normalizer_eps)),
        sums_(of.sums_.In(segment.state) + head * of.options_.K) {}

  // Moves the sum by the row that the token is of, and divides.
  void Move(size_t row, const HeadToken& token) const {
    Divide(token, NormalizerStep(token.K, alpha_.At(row, head_), token.q,
                                 token.k, sums_));
  }
  void Read(const HeadToken& token) const {
    Divide(token, NormalizerRead(token.K, token.q, sums_));
  }

 private:
  void Divide(const HeadToken& token, double weight) const {
    const auto scale = static_cast<double>(token.scale);
    const auto factor = static_cast<float>(1.0 / (scale * weight + eps_));
    for (size_t j = 0; j < token.V; ++j) token.o[j] *= factor;
  }

  const HeadDecays& alpha_;
  const size_t head_;
  const double eps_;
  double* const sums_;  // f64[K]
};

// A rule holds one head's state over a segment:
//   Take(row)            gets the decays of a row ready
//   Move(token)          moves the state by that row and reads it
//   Read(token)          reads it
struct GatedRecurrence::Rules {
  // No decay, or one that is the same for all value channels of a key channel.
  class KeyDecay {
   public:
    explicit KeyDecay(const HeadRun& run)
        : alpha_(run.batch.alpha),
          head_(run.head),
          state_(run.of.state_, run.segment, run.head, run.room(),
                 run.scratch) {}
    void Take(size_t row) { decay_ = alpha_.At(row, head_); }
    void Move(const HeadToken& token) const {
      KeyDecayStep(token, decay_, state());
    }
    void Read(const HeadToken& token) const { ReadState(token, state()); }

   protected:
    size_t head() const { return head_; }
    const Decays& decay() const { return decay_; }
    float* state() const { return state_.data(); }

   private:
    const HeadDecays& alpha_;
    const size_t head_;
    const OpenHeadMatrix state_;
    Decays decay_{};
  };

  class Bonus : public KeyDecay {
   public:
    explicit Bonus(const HeadRun& run)
        : KeyDecay(run), rows_(run.batch.inputs.bonus) {}
    void Take(size_t row) {
      KeyDecay::Take(row);
      bonus_ = rows_.At(row, head());
    }
    void Move(const HeadToken& token) const {
      BonusDecayStep(token, decay(), bonus_, state());
    }

   private:
    const HeadRows& rows_;
    const float* bonus_ = nullptr;
  };

  // A decay that two vectors of factors make.
  template <void (*kStep)(const HeadToken&, const Decays&, const Decays&,
                          float*)>
  class TwoDecays : public KeyDecay {
   public:
    explicit TwoDecays(const HeadRun& run)
        : KeyDecay(run), beta_(run.batch.beta) {}
    void Take(size_t row) {
      KeyDecay::Take(row);
      second_ = beta_.At(row, head());
    }
    void Move(const HeadToken& token) const {
      kStep(token, decay(), second_, state());
    }

   private:
    const HeadDecays& beta_;
    Decays second_{};
  };

  class FullDecay {
   public:
    explicit FullDecay(const HeadRun& run)
        : beta_(run.batch.inputs.beta),
          head_(run.head),
          rate_(run.of.options_.rate.data() +
                run.head * run.of.options_.K * run.of.options_.V),
          state_(run.of.state_, run.segment, run.head, run.room(),
                 run.scratch) {}
    void Take(size_t row) { step_ = beta_.At(row, head_); }
    void Move(const HeadToken& token) const {
      FullDecayStep(token, rate_, step_, state_.data());
    }
    void Read(const HeadToken& token) const { ReadState(token, state_.data()); }

   private:
    const HeadRows& beta_;
    const size_t head_;
    const float* const rate_;
    const OpenHeadMatrix state_;
    const float* step_ = nullptr;
  };

  // A state in doubles, whose decay is constant, if there is one.
  class Growing {
   public:
    explicit Growing(const HeadRun& run)
        : decay_(run.of.exact_alphas_.empty()
                     ? nullptr
                     : run.of.exact_alphas_.data() +
                           run.head * run.of.options_.K),
          state_(run.of.GrowingState(run.segment, run.head)) {}
    static void Take(size_t /*row*/) {}
    void Move(const HeadToken& token) const {
      GrowingSumStep(token, decay_, state_);
    }
    void Read(const HeadToken& token) const { GrowingSumRead(token, state_); }

   private:
    const double* const decay_;
    double* const state_;
  };

  // A state that is advanced as it is packed, by one row.
  template <StateDType kDType>
  class Packed {
   public:
    explicit Packed(const HeadRun& run)
        : run_(run),
          noise_(run.of.state_.MakeNoise(run.segment, run.head, run.room(),
                                         run.scratch)) {}
    void Take(size_t row) { decay_ = run_.batch.alpha.At(row, run_.head); }
    void Move(const HeadToken& token) const {
      const HeadMatrices& state = run_.of.state_;
      if constexpr (kDType == StateDType::kBf16) {
        KeyDecayStepBf16(token, decay_, noise_,
                         state.Bf16(run_.segment, run_.head));
      } else {
        KeyDecayStepInt16(token, decay_, noise_,
                          state.Int16(run_.segment, run_.head),
                          state.Exponents(run_.segment, run_.head));
      }
    }

   private:
    const HeadRun& run_;
    const RoundingNoise noise_;
    Decays decay_{};
  };

  // A rule whose readings are divided by the sum of keys.
  template <typename Rule>
  class Normalized : public Rule {
   public:
    explicit Normalized(const HeadRun& run)
        : Rule(run), normalizer_(run.of, run.batch, run.segment, run.head) {}
    void Take(size_t row) {
      Rule::Take(row);
      row_ = row;
    }
    void Move(const HeadToken& token) const {
      Rule::Move(token);
      normalizer_.Move(row_, token);
    }
    void Read(const HeadToken& token) const {
      Rule::Read(token);
      normalizer_.Read(token);
    }

   private:
    const Normalizer normalizer_;
    size_t row_ = 0;
  };

  // Hands a rule the tokens of its rows.
  template <typename Rule>
  class OfRows {
   public:
    explicit OfRows(const HeadRun& run) : run_(run), rule_(run) {}
    void Take(size_t row) {
      k_ = run_.batch.inputs.k.At(row, run_.head);
      v_ = run_.batch.inputs.v.At(row, run_.head);
      rule_.Take(row);
    }
    void Move(size_t row, size_t query_head) const {
      HeadToken token = run_.of.QueryOf(run_.batch, row, query_head);
      token.k = k_;
      token.v = v_;
      rule_.Move(token);
    }
    void Read(size_t row, size_t query_head) const {
      rule_.Read(run_.of.QueryOf(run_.batch, row, query_head));
    }

   private:
    const HeadRun& run_;
    Rule rule_;
    const float* k_ = nullptr;  // of the row taken last
    const float* v_ = nullptr;
  };

  template <typename Rule>
  static void Many(const HeadRun& run) {
    RunSteps(run.segment, run.head, run.of.group(), OfRows<Rule>(run));
  }
  // REQUIRES: one row, no groups.
  template <typename Rule>
  static void One(const HeadRun& run) {
    const size_t row = run.segment.first_row;
    OfRows<Rule> rule(run);
    rule.Take(row);
    rule.Move(row, run.head);
  }

  static ChosenSteps Choose(const GatedRecurrence& of);
  // `Rule` in both forms, normalized if the options say so.
  template <typename Rule>
  static ChosenSteps Choose(const Options& options) {
    const Steps steps = options.normalizer_eps.has_value()
                            ? Many<Normalized<Rule>>
                            : Many<Rule>;
    return {.one = steps, .many = steps};
  }
  template <typename Rule>
  static Steps ChooseOne(const Options& options) {
    return options.normalizer_eps.has_value() ? One<Normalized<Rule>>
                                              : One<Rule>;
  }
};

GatedRecurrence::ChosenSteps GatedRecurrence::Rules::Choose(
    const GatedRecurrence& of) {
  const Options& o = of.options_;
  if (of.grows_) return Choose<Growing>(o);
  if (o.bonus) return Choose<Bonus>(o);
  switch (o.decay) {
    case Decay::kNone:
    case Decay::kScalar:
    case Decay::kKey:
      break;
    case Decay::kValue:
    case Decay::kOuter:
      return Choose<TwoDecays<OuterDecayStep>>(o);
    case Decay::kFull:
      return Choose<FullDecay>(o);
    case Decay::kComplex:
      return Choose<TwoDecays<ComplexKeyDecayStep>>(o);
  }
  ChosenSteps steps = Choose<KeyDecay>(o);
  if (HasPackedStep(o, of.state_.dtype())) {
    steps.one = of.state_.dtype() == StateDType::kBf16
                    ? ChooseOne<Packed<StateDType::kBf16>>(o)
                    : ChooseOne<Packed<StateDType::kInt16>>(o);
  }
  return steps;
}

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
  made.steps_ = Rules::Choose(made);
  WorkerScratchPlan plan(builder.scratch);
  made.rooms_.push_back(made.state_.PlanRoom(plan));
  made.PrepareChunks(plan);
  return made;
}

void GatedRecurrence::Run(std::span<const Segment> segments,
                          const Inputs& inputs, float* out, size_t out_stride,
                          Workspace::Buffers& buffers) const {
  const Batch batch = {.inputs = inputs,
                       .alpha = AlphaOf(inputs),
                       .beta = {inputs.beta, inputs.beta_low},
                       .out = {out, out_stride, options_.V}};
  const HeadLoop loop(segments, options_.state_heads,
                      HeadsOfTask(segments, inputs, buffers.pool.size()));
  loop.Run(buffers, [&](size_t task, const WorkerScratch& scratch) {
    const HeadSpan heads = loop[task];
    if (InChunks(heads.segment)) {
      RunChunks(batch, heads, scratch);
      return;
    }
    const Steps run = heads.segment.rows == 1 ? steps_.one : steps_.many;
    for (size_t head = heads.first; head < heads.end; ++head) {
      run({*this, batch, heads.segment, head, scratch});
    }
  });
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

HeadDecays GatedRecurrence::AlphaOf(const Inputs& inputs) const {
  switch (options_.decay) {
    case Decay::kNone:
    case Decay::kValue:
    case Decay::kFull:
      break;
    case Decay::kScalar:
      if (alphas_.empty()) return {inputs.alpha, inputs.alpha_low, 0};
      return {{alphas_.data(), 0, 1}, {alphas_low_.data(), 0, 1}, 0};
    case Decay::kKey:
    case Decay::kOuter:
    case Decay::kComplex:
      return {inputs.alpha, inputs.alpha_low};
  }
  return {.high = {ones_.data()}};
}

HeadToken GatedRecurrence::QueryOf(const Batch& batch, size_t row,
                                   size_t query_head) const {
  return {.K = options_.K,
          .V = options_.V,
          .scale = options_.scale,
          .q = batch.inputs.q.At(row, query_head),
          .o = batch.out.At(row, query_head)};
}

void GatedRecurrence::NormalizeChunk(const Batch& batch, const RowChunk& chunk,
                                     size_t head) const {
  const Normalizer normalizer(*this, batch, chunk.segment, head);
  const bool moves = chunk.segment.pass != Pass::kRead;
  for (size_t row = chunk.first_row; row < chunk.first_row + chunk.L; ++row) {
    size_t h = head * group();
    if (moves) {
      HeadToken token = QueryOf(batch, row, h++);
      token.k = batch.inputs.k.At(row, head);
      normalizer.Move(row, token);
    }
    for (; h < (head + 1) * group(); ++h) {
      normalizer.Read(QueryOf(batch, row, h));
    }
  }
}

}  // namespace steadystate
