#include "server/model/parts/causal_conv.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/pointwise/short_conv.h"
#include "server/base/status_macros.h"

namespace steadystate {

ConvNames ConvNames::Of(absl::string_view input) {
  return {.tensor = absl::StrCat(input, "_conv1d"),
          .slot = absl::StrCat("conv_", input)};
}

namespace {

// f32[channels, taps]
absl::StatusOr<std::vector<float>> TakeTaps(const WeightScope& weights,
                                            const ConvNames& names,
                                            size_t channels, size_t taps) {
  if (names.pieces.empty()) {
    return weights.TakeFloats(absl::StrCat(names.tensor, ".weight"),
                              {channels, 1, taps});
  }
  std::vector<float> all;
  for (const std::string& piece : names.pieces) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<float> part,
        weights.TakeFloats(absl::StrCat(piece, ".weight"),
                           {channels / names.pieces.size(), 1, taps}));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

absl::StatusOr<CausalConv> CausalConv::Make(const MixerBuilder& builder,
                                            const ConvNames& names,
                                            size_t channels, size_t taps,
                                            Activation activation, Bias bias) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<float> stored,
      TakeTaps(builder.weights, names, channels, taps));
  CausalConv conv;
  conv.channels_ = channels;
  conv.taps_ = taps;
  conv.activation_ = activation;
  conv.weights_.resize(stored.size());
  for (size_t c = 0; c < channels; ++c) {
    for (size_t w = 0; w < taps; ++w) {
      conv.weights_[w * channels + c] = stored[c * taps + w];
    }
  }
  if (bias == Bias::kYes) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        conv.bias_, builder.weights.TakeFloats(
                        absl::StrCat(names.tensor, ".bias"), {channels}));
  }
  if (taps > 1) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        conv.window_, builder.state.AddFixed(builder.layer, names.slot,
                                             {taps - 1, channels}));
  }
  return conv;
}

void CausalConv::Run(const Segment& segment, size_t first, size_t end, float* x,
                     size_t stride) const {
  if (first >= end) return;
  float* window = taps_ > 1 ? window_.In(segment.state) + first : nullptr;
  const float* bias = bias_.empty() ? nullptr : bias_.data() + first;
  for (size_t t = 0; t < segment.rows; ++t) {
    float* row = x + (segment.first_row + t) * stride + first;
    ShortConvStep({.C = end - first,
                   .stride = channels_,
                   .W = taps_,
                   .taps = weights_.data() + first,
                   .bias = bias,
                   .act = activation_},
                  window, row, row);
  }
}

absl::Status CausalConvs::Add(const MixerBuilder& builder,
                              const ConvNames& names, size_t column,
                              size_t channels, size_t taps,
                              Activation activation, Bias bias) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      CausalConv conv,
      CausalConv::Make(builder, names, channels, taps, activation, bias));
  convs_.push_back({std::move(conv), column});
  return absl::OkStatus();
}

void CausalConvs::Run(std::span<const Segment> segments, float* x,
                      size_t stride, Workspace::Buffers& buffers) const {
  // Channels are independent: of many rows threads share them, in whole cache
  // lines.
  constexpr size_t kManyRows = 8;
  constexpr size_t kShares = 8;
  constexpr size_t kLine = 16;
  const bool many = std::ranges::any_of(segments, [](const Segment& segment) {
    return segment.rows >= kManyRows;
  });
  const size_t shares = many ? kShares : 1;
  const size_t n = convs_.size() * shares;
  buffers.pool.ParallelFor(segments.size() * n, [&](size_t i, size_t) {
    const Placed& placed = convs_[i % n / shares];
    const size_t channels = placed.conv.channels();
    const size_t lines = (channels + kLine - 1) / kLine;
    const size_t each = (lines + shares - 1) / shares * kLine;
    const size_t first = i % shares * each;
    placed.conv.Run(segments[i / n], first, std::min(channels, first + each),
                    x + placed.column, stride);
  });
}

}  // namespace steadystate
