#include "server/model/parts/mamba1_layer.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/norm.h"
#include "server/base/status_macros.h"
#include "server/model/parts/decay_gate.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

// Columns of the state that one task advances: the largest divisor of E up to
// 256, unless that is so small that the tasks would be mere overhead.
size_t ColumnsOfHead(size_t E) {
  size_t columns = std::min<size_t>(E, 256);
  while (E % columns != 0) --columns;
  return columns < 32 ? E : columns;
}

}  // namespace

absl::StatusOr<size_t> ReadMambaRank(const MixerBuilder& from,
                                     absl::string_view key) {
  const absl::StatusOr<std::string> name = from.config.String(key, "auto");
  if (name.ok() && *name == "auto") return (from.hidden_size + 15) / 16;
  return from.config.Size(key, 0, {1, 1 << 20});
}

absl::StatusOr<std::unique_ptr<Mixer>> Mamba1Layer::Make(
    const MixerBuilder& from, const Mamba1Options& options) {
  auto made = std::make_unique<Mamba1Layer>();
  const size_t E = options.E;
  made->options_ = options;
  made->D_ = from.hidden_size;
  made->columns_ = ColumnsOfHead(E);
  STEADYSTATE_RETURN_IF_ERROR(made->TakeProjections(from));
  STEADYSTATE_RETURN_IF_ERROR(made->TakeNorms(from));
  STEADYSTATE_RETURN_IF_ERROR(
      made->conv_.Add(from, ConvNames(), 0, E, options.conv_taps,
                      Activation::kSilu, options.conv_bias));
  STEADYSTATE_RETURN_IF_ERROR(made->MakeRecurrence(from));
  STEADYSTATE_ASSIGN_OR_RETURN(made->skip_, from.weights.TakeFloats("D", {E}));
  RowScratchPlan plan(from.scratch);
  made->at_ = {.xz = plan.Add(2 * E),
               .low = plan.Add(options.rank + 2 * options.N),
               .dt = plan.Add(E),
               .v = plan.Add(E),
               .out = plan.Add(E)};
  return made;
}

absl::Status Mamba1Layer::TakeProjections(const MixerBuilder& from) {
  const auto& [E, N, rank, taps, conv_bias, bias, norm] = options_;
  const WeightScope& weights = from.weights;
  STEADYSTATE_ASSIGN_OR_RETURN(
      in_, MakeProjection(weights, "in_proj", D_, 2 * E, from.linears, bias));
  STEADYSTATE_ASSIGN_OR_RETURN(
      x_, MakeProjection(weights, "x_proj", E, rank + 2 * N, from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(dt_, MakeProjection(weights, "dt_proj", rank, E,
                                                   from.linears, Bias::kYes));
  STEADYSTATE_ASSIGN_OR_RETURN(
      out_, MakeProjection(weights, "out_proj", E, D_, from.linears, bias));
  return absl::OkStatus();
}

absl::Status Mamba1Layer::TakeNorms(const MixerBuilder& from) {
  if (!options_.norm.has_value() || !options_.norm->weighted) {
    return absl::OkStatus();
  }
  const std::pair<absl::string_view, size_t> norms[] = {
      {"dt_layernorm.weight", options_.rank},
      {"b_layernorm.weight", options_.N},
      {"c_layernorm.weight", options_.N}};
  for (const auto& [name, width] : norms) {
    STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> weight,
                                 from.weights.TakeFloats(name, {width}));
    norms_.insert(norms_.end(), weight.begin(), weight.end());
  }
  return absl::OkStatus();
}

absl::Status Mamba1Layer::MakeRecurrence(const MixerBuilder& from) {
  const size_t E = options_.E;
  const size_t N = options_.N;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<float> stored,
                               TakeRates(from.weights, "A_log", {E, N}));
  const size_t heads = E / columns_;
  std::vector<float> rate(E * N);  // [heads, N, columns]
  for (size_t e = 0; e < E; ++e) {
    for (size_t n = 0; n < N; ++n) {
      const size_t head = e / columns_;
      rate[(head * N + n) * columns_ + e % columns_] = stored[e * N + n];
    }
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      recurrence_, GatedRecurrence::Make(from, {.query_heads = heads,
                                                .state_heads = heads,
                                                .K = N,
                                                .V = columns_,
                                                .decay = Decay::kFull,
                                                .rate = std::move(rate)}));
  return absl::OkStatus();
}

void Mamba1Layer::Normalize(float* low) const {
  const size_t widths[] = {options_.rank, options_.N, options_.N};
  const float* weight = norms_.empty() ? nullptr : norms_.data();
  for (const size_t width : widths) {
    RmsNorm(width, low, weight, options_.norm->eps, low);
    low += width;
    if (weight != nullptr) weight += width;
  }
}

void Mamba1Layer::Forward(std::span<const Segment> segments, size_t rows,
                          const float* x, float* y,
                          Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const PhaseScope scope(buffers.phases, Phase::kRecurrence);
  const size_t E = options_.E;
  const size_t low_width = options_.rank + 2 * options_.N;
  const RowScratch scratch = buffers.OfRows(rows);
  float* xz = scratch[at_.xz];
  float* low = scratch[at_.low];
  float* dt = scratch[at_.dt];
  float* v = scratch[at_.v];
  float* out = scratch[at_.out];

  buffers.Project(*in_, rows, x, D_, xz, 2 * E);
  conv_.Run(segments, xz, 2 * E, buffers);
  buffers.Project(*x_, rows, xz, 2 * E, low, low_width);
  if (options_.norm.has_value()) {
    buffers.ForRows(rows, low_width, [&](size_t row, size_t) {
      Normalize(low + row * low_width);
    });
  }
  buffers.Project(*dt_, rows, low, low_width, dt, E);
  buffers.ForRows(rows, 2 * E, [&](size_t row, size_t) {
    float* step = dt + row * E;
    Activate(Activation::kSoftplus, E, step, step);
    ActivateAndMultiply(Activation::kIdentity, E, step, xz + row * 2 * E,
                        v + row * E);
  });
  const float* B = low + options_.rank;
  recurrence_.Run(segments,
                  {.q = {B + options_.N, low_width, 0},
                   .k = {B, low_width, 0},
                   .v = {v, E, columns_},
                   .beta = {dt, E, columns_}},
                  out, E, buffers);
  buffers.ForRows(rows, 2 * E, [&](size_t row, size_t) {
    float* o = out + row * E;
    const float* x_row = xz + row * 2 * E;
    for (size_t e = 0; e < E; ++e) o[e] += skip_[e] * x_row[e];
    ActivateAndMultiply(Activation::kSilu, E, x_row + E, o, o);
  });
  buffers.Project(*out_, rows, out, E, y, D_);
}

}  // namespace steadystate
