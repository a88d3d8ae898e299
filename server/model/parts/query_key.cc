#include "server/model/parts/query_key.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/feature_map/feature_map.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/rotary.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::StatusOr<RotaryRows> RotaryRows::Make(const MixerBuilder& builder,
                                            const Options& options,
                                            absl::string_view width_key) {
  const size_t rotated = options.rotated.value_or(options.d);
  if (rotated % 2 != 0) {
    return builder.config.Invalid(
        width_key, absl::StrCat("keys of ", rotated,
                                " channels cannot be rotated in pairs; their "
                                "width must be even"));
  }
  RotaryRows rotary;
  rotary.angles_ = WorkerScratchPlan(builder.scratch).Add(rotated);
  rotary.options_ = options;
  rotary.rotated_ = rotated;
  rotary.frequencies_.resize(rotated / 2);
  RotaryFrequencies(rotated, options.base, rotary.frequencies_.data());
  const size_t turning = options.turning.value_or(rotated / 2);
  for (size_t i = turning; i < rotated / 2; ++i) rotary.frequencies_[i] = 0;
  return rotary;
}

void RotaryRows::Run(std::span<const Segment> segments, float* x, size_t stride,
                     Workspace::Buffers& buffers) const {
  const auto rotate = [&](const Segment& segment, size_t t, size_t worker) {
    Rotate(segment.position + t, x + (segment.first_row + t) * stride,
           buffers.OfWorker(worker)[angles_]);
  };
  if (segments.empty()) return;
  // A single token is not worth waking the team.
  if (segments.size() == 1 && segments[0].rows == 1) {
    rotate(segments[0], 0, 0);
    return;
  }
  // A few long segments are cut, so that all threads have something to do.
  const size_t pieces =
      (buffers.pool.size() + segments.size() - 1) / segments.size();
  buffers.pool.ParallelFor(
      segments.size() * pieces, [&](size_t i, size_t worker) {
        const Segment& segment = segments[i / pieces];
        const size_t piece = i % pieces;
        const size_t end = segment.rows * (piece + 1) / pieces;
        for (size_t t = segment.rows * piece / pieces; t < end; ++t) {
          rotate(segment, t, worker);
        }
      });
}

void RotaryRows::Rotate(uint64_t position, float* x, float* angles) const {
  const size_t r = rotated_;
  float* cos = angles;
  float* sin = angles + r / 2;
  RotaryAngles(r, position, frequencies_.data(), cos, sin);
  for (size_t head = 0; head < options_.heads; ++head) {
    if (options_.pairs == Pairs::kHalves) {
      ApplyRotary(r, cos, sin, x + head * options_.d);
    } else {
      ApplyRotaryInterleaved(r, cos, sin, x + head * options_.d);
    }
  }
}

namespace {

struct NamedMap {
  absl::string_view name;
  FeatureMapKind kind;
};

constexpr NamedMap kMaps[] = {
    {"elementwise_product", FeatureMapKind::kElementwiseProduct},
    {"elu", FeatureMapKind::kElu},
    {"relu", FeatureMapKind::kRelu},
    {"identity", FeatureMapKind::kIdentity},
    {"hedgehog", FeatureMapKind::kHedgehog},
    {"t2r", FeatureMapKind::kT2r},
    {"dpfp", FeatureMapKind::kDpfp},
    {"dpfp_paper", FeatureMapKind::kDpfpPaper},
    {"hedgehog_exp", FeatureMapKind::kHedgehogExp},
    {"hedgehog_softmax", FeatureMapKind::kHedgehogSoftmax},
    {"softmax", FeatureMapKind::kSoftmax},
    {"efficient", FeatureMapKind::kEfficient},
    {"cosine", FeatureMapKind::kCosine},
    {"taylor", FeatureMapKind::kTaylor},
    {"performer", FeatureMapKind::kPerformer},
};

constexpr float kUnitEps = 1e-6f;
constexpr float kHedgehogFactor = 2.0f;

// The scope that holds the parameters of one side. A tied map may have been
// stored under either side's name.
WeightScope ParametersOf(const MixerBuilder& builder, FeatureMap::Side side,
                         bool tied, absl::string_view first_tensor) {
  const bool query = side == FeatureMap::Side::kQuery;
  const WeightScope own =
      builder.weights.Child(query ? "feature_map_q." : "feature_map_k.");
  const WeightScope other =
      builder.weights.Child(query ? "feature_map_k." : "feature_map_q.");
  return tied && !own.Has(first_tensor) && other.Has(first_tensor) ? other
                                                                   : own;
}

}  // namespace

std::optional<FeatureMapKind> FeatureMapFromName(absl::string_view name) {
  for (const NamedMap& map : kMaps) {
    if (map.name == name) return map.kind;
  }
  return std::nullopt;
}

std::string FeatureMapNames() {
  std::vector<absl::string_view> names;
  for (const NamedMap& map : kMaps) names.push_back(map.name);
  return absl::StrJoin(names, ", ");
}

FeatureMapTraits TraitsOf(FeatureMapKind kind) {
  switch (kind) {
    case FeatureMapKind::kElementwiseProduct:
    case FeatureMapKind::kElu:
    case FeatureMapKind::kRelu:
    case FeatureMapKind::kIdentity:
    case FeatureMapKind::kHedgehog:
    case FeatureMapKind::kT2r:
    case FeatureMapKind::kDpfp:
    case FeatureMapKind::kDpfpPaper:
      return {};
    case FeatureMapKind::kHedgehogExp:
    case FeatureMapKind::kPerformer:
    case FeatureMapKind::kEfficient:
      return {.logarithmic = true, .always_normalized = true, .eps = 0};
    case FeatureMapKind::kHedgehogSoftmax:
      return {.always_normalized = true,
              .eps = 1e-12f,
              .parameters_per_head = true};
    case FeatureMapKind::kSoftmax:
    case FeatureMapKind::kTaylor:
      return {.always_normalized = true, .eps = 1e-12f};
    case FeatureMapKind::kCosine:
      return {.always_normalized = true, .eps = 1e-6f};
  }
  return {};
}

absl::StatusOr<FeatureMap> FeatureMap::Make(const MixerBuilder& builder,
                                            FeatureMapKind kind, Side side,
                                            bool tied, size_t heads, size_t d) {
  FeatureMap map;
  map.kind_ = kind;
  map.side_ = side;
  map.d_ = d;
  map.input_scale_ =
      static_cast<float>(std::pow(static_cast<double>(d), -0.25));
  STEADYSTATE_RETURN_IF_ERROR(map.TakeParameters(builder, tied, heads));
  map.width_ = map.Width();
  return map;
}

absl::Status FeatureMap::TakeParameters(const MixerBuilder& builder, bool tied,
                                        size_t heads) {
  switch (kind_) {
    case FeatureMapKind::kElementwiseProduct:
      return TakeProduct(ParametersOf(builder, side_, tied, "layer1.weight"));
    case FeatureMapKind::kHedgehog:
    case FeatureMapKind::kT2r:
    case FeatureMapKind::kHedgehogExp:
      return TakeMatrix(ParametersOf(builder, side_, tied, "layer.weight"));
    case FeatureMapKind::kHedgehogSoftmax:
      return TakeMatrixPerHead(
          ParametersOf(builder, side_, tied, "layer.weight"), heads);
    case FeatureMapKind::kPerformer:
      return TakeProjection(builder.weights.Child("feature_map."));
    default:
      return absl::OkStatus();
  }
}

absl::Status FeatureMap::TakeProduct(const WeightScope& weights) {
  rank_ = d_;
  STEADYSTATE_ASSIGN_OR_RETURN(matrix_,
                               weights.TakeFloats("layer1.weight", {d_, d_}));
  STEADYSTATE_ASSIGN_OR_RETURN(bias_, weights.TakeFloats("layer1.bias", {d_}));
  STEADYSTATE_ASSIGN_OR_RETURN(second_matrix_,
                               weights.TakeFloats("layer2.weight", {d_, d_}));
  STEADYSTATE_ASSIGN_OR_RETURN(second_bias_,
                               weights.TakeFloats("layer2.bias", {d_}));
  return absl::OkStatus();
}

absl::Status FeatureMap::TakeMatrix(const WeightScope& weights) {
  // fla's maps keep the width; the published hedgehog may change it.
  rank_ = d_;
  if (kind_ == FeatureMapKind::kHedgehogExp) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        rank_, weights.OpenSize("layer.weight", {WeightScope::kOpen, d_}));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(matrix_,
                               weights.TakeFloats("layer.weight", {rank_, d_}));
  if (kind_ == FeatureMapKind::kHedgehog) {
    STEADYSTATE_ASSIGN_OR_RETURN(bias_, weights.TakeFloats("layer.bias", {d_}));
  }
  return absl::OkStatus();
}

absl::Status FeatureMap::TakeMatrixPerHead(const WeightScope& weights,
                                           size_t heads) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      rank_, weights.OpenSize("layer.weight", {heads, d_, WeightScope::kOpen}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> stored,
      weights.TakeFloats("layer.weight", {heads, d_, rank_}));
  matrix_.resize(stored.size());
  for (size_t h = 0; h < heads; ++h) {
    const float* from = stored.data() + h * d_ * rank_;
    float* to = matrix_.data() + h * d_ * rank_;
    for (size_t i = 0; i < d_; ++i) {
      for (size_t r = 0; r < rank_; ++r) to[r * d_ + i] = from[i * rank_ + r];
    }
  }
  return absl::OkStatus();
}

absl::Status FeatureMap::TakeProjection(const WeightScope& weights) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      rank_, weights.OpenSize("projection_matrix", {WeightScope::kOpen, d_}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      matrix_, weights.TakeFloats("projection_matrix", {rank_, d_}));
  return absl::OkStatus();
}

size_t FeatureMap::Width() const {
  switch (kind_) {
    case FeatureMapKind::kElementwiseProduct:
    case FeatureMapKind::kElu:
    case FeatureMapKind::kRelu:
    case FeatureMapKind::kIdentity:
    case FeatureMapKind::kT2r:
    case FeatureMapKind::kSoftmax:
    case FeatureMapKind::kEfficient:
      return d_;
    case FeatureMapKind::kHedgehog:
    case FeatureMapKind::kHedgehogExp:
    case FeatureMapKind::kHedgehogSoftmax:
      return 2 * rank_;
    case FeatureMapKind::kDpfp:
    case FeatureMapKind::kDpfpPaper:
      return 8 * d_;
    case FeatureMapKind::kCosine:
      return d_ + 1;
    case FeatureMapKind::kTaylor:
      return TaylorWidth(d_);
    case FeatureMapKind::kPerformer:
      return rank_;
  }
  return d_;
}

void FeatureMap::Apply(size_t head, const float* x, float* scratch,
                       float* y) const {
  switch (kind_) {
    case FeatureMapKind::kElu:
      Activate(Activation::kEluPlusOne, d_, x, y);
      break;
    case FeatureMapKind::kRelu:
      Activate(Activation::kRelu, d_, x, y);
      break;
    case FeatureMapKind::kIdentity:
      std::copy_n(x, d_, y);
      break;
    case FeatureMapKind::kDpfp:
      Dpfp(d_, x, DpfpHalf::kNegated, y);
      break;
    case FeatureMapKind::kDpfpPaper:
      Dpfp(d_, x, DpfpHalf::kReflected, y);
      break;
    case FeatureMapKind::kSoftmax:
      JointSoftmax(d_, x, y);
      break;
    case FeatureMapKind::kEfficient:
      if (side_ == Side::kQuery) {
        JointSoftmax(d_, x, y);
      } else {
        std::copy_n(x, d_, y);
      }
      break;
    case FeatureMapKind::kCosine:
      UnitWithOne(d_, x, kUnitEps, y);
      break;
    case FeatureMapKind::kTaylor:
      Taylor(d_, x, y);
      break;
    default:
      ApplyLearned(head, x, scratch, y);
  }
}

void FeatureMap::ApplyLearned(size_t head, const float* x, float* scratch,
                              float* y) const {
  const float* bias = bias_.empty() ? nullptr : bias_.data();
  const float* matrix = matrix_.data();
  switch (kind_) {
    case FeatureMapKind::kElementwiseProduct:
      MatVec(d_, d_, matrix, bias, x, scratch);
      MatVec(d_, d_, second_matrix_.data(), second_bias_.data(), x, y);
      ActivateAndMultiply(Activation::kIdentity, d_, scratch, y, y);
      break;
    case FeatureMapKind::kHedgehog:
      MatVec(d_, d_, matrix, bias, x, scratch);
      PlusMinus(d_, scratch, kHedgehogFactor, y);
      JointSoftmax(2 * d_, y, y);
      break;
    case FeatureMapKind::kT2r:
      MatVec(d_, d_, matrix, nullptr, x, y);
      Activate(Activation::kRelu, d_, y, y);
      break;
    case FeatureMapKind::kHedgehogExp:
      MatVec(rank_, d_, matrix, nullptr, x, scratch);
      PlusMinus(rank_, scratch, 1.0f, y);
      break;
    case FeatureMapKind::kHedgehogSoftmax:
      MatVec(rank_, d_, matrix + head * rank_ * d_, nullptr, x, scratch);
      HalfSoftmaxes(rank_, scratch, y);
      break;
    case FeatureMapKind::kPerformer:
      for (size_t i = 0; i < d_; ++i) scratch[i] = input_scale_ * x[i];
      MatVec(rank_, d_, matrix, nullptr, scratch, y);
      PerformerLog(rank_, d_, y, scratch, y);
      break;
    default:
      break;
  }
}

}  // namespace steadystate
