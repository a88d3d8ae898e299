#include "server/model/parts/mixture.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/model/parts/hybrid_config.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {
namespace {

// The matrix of one expert, `rows` of `columns`, of a tensor of all.
WeightRows RowsOfExpert(TypedData all, size_t expert, size_t rows,
                        size_t columns) {
  const auto* const bytes = static_cast<const std::byte*>(all.data);
  const size_t first = expert * rows * columns * SizeOf(all.dtype);
  return {.data = {bytes + first, all.dtype}, .rows = rows};
}

}  // namespace

absl::Status ReadExperts(const Config& config, const ExpertDefaults& defaults,
                         RouterOptions& router) {
  constexpr Bounds kExperts = {1, 4096};
  STEADYSTATE_ASSIGN_OR_RETURN(
      router.experts,
      config.Size(defaults.count_key, defaults.count, kExperts));
  STEADYSTATE_ASSIGN_OR_RETURN(
      router.chosen,
      config.Size(defaults.chosen_key, defaults.chosen, kExperts));
  if (router.chosen <= router.experts) return absl::OkStatus();
  return config.Invalid(
      defaults.chosen_key,
      absl::StrCat("it is at most ", defaults.count_key, ", ", router.experts));
}

absl::Status ReadGroupedRouter(const Config& config,
                               const GroupedRouterDefaults& defaults,
                               RouterOptions& router) {
  router.scores = RouterOptions::Scores::kSigmoid;
  router.bias = "gate.e_score_correction_bias";
  STEADYSTATE_RETURN_IF_ERROR(ReadExperts(config, defaults.experts, router));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool divided,
                               config.Bool(defaults.divided_key, true));
  router.divided_with = divided ? 1e-20F : -1;
  STEADYSTATE_ASSIGN_OR_RETURN(
      router.factor,
      ReadFactor(config, "routed_scaling_factor", defaults.factor));
  const Bounds groups = {1, RouterOptions::kMaxGroups};
  STEADYSTATE_ASSIGN_OR_RETURN(
      router.groups, config.Size(defaults.groups_key, defaults.groups, groups));
  STEADYSTATE_ASSIGN_OR_RETURN(
      router.groups_kept,
      config.Size("topk_group", defaults.groups_kept, groups));
  if (router.experts % router.groups != 0) {
    return config.Invalid(
        defaults.groups_key,
        absl::StrCat("it must divide ", defaults.experts.count_key));
  }
  if (router.groups_kept > router.groups ||
      router.experts / router.groups * router.groups_kept < router.chosen) {
    return config.Invalid(
        "topk_group", absl::StrCat("it is at most ", defaults.groups_key,
                                   ", and so many groups have at least ",
                                   defaults.experts.chosen_key, " experts"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mixer>> Mixture::Make(
    const MixerBuilder& from, const MixtureOptions& options) {
  static_assert(sizeof(Chosen) == 2 * sizeof(float));
  static_assert(sizeof(Share) == 2 * sizeof(float));
  auto mixture = std::make_unique<Mixture>();
  mixture->D_ = from.hidden_size;
  mixture->L_ = options.latent.width > 0 ? options.latent.width : mixture->D_;
  mixture->I_ = options.width;
  mixture->gated_ = !options.names.each.gate.empty();
  mixture->activation_ = options.activation;
  mixture->limit_ = options.limit;
  mixture->gates_shared_ = !options.router.shared_gate.empty();
  STEADYSTATE_ASSIGN_OR_RETURN(mixture->router_,
                               Router::Make(from, options.router));
  STEADYSTATE_RETURN_IF_ERROR(mixture->TakeExperts(from, options.names));
  STEADYSTATE_RETURN_IF_ERROR(mixture->TakeLatent(from, options.latent));
  if (options.make_shared) {
    // Its memory may be where the others' is: it comes first.
    STEADYSTATE_ASSIGN_OR_RETURN(mixture->shared_, options.make_shared(from));
  }
  mixture->Plan(from);
  return mixture;
}

void Mixture::Plan(const MixerBuilder& from) {
  const size_t chosen = router_.chosen();
  RowScratchPlan plan(from.scratch);
  chosen_ = plan.Add(2 * chosen);
  shares_ = plan.Add(2 * chosen);
  gate_ = plan.Add(1);
  gathered_ = plan.Add(L_);
  hidden_ = plan.Add((gated_ ? 2 : 1) * I_);
  out_ = plan.Add(std::max(D_, L_));
  if (latent_in_ != nullptr) {
    latent_ = plan.Add(L_);
    sum_ = plan.Add(L_);
  }
  router_.Plan(plan);
  starts_ =
      WorkerScratchPlan(from.scratch).Add<uint32_t>(router_.experts() + 1);
}

absl::Status Mixture::TakeLatent(const MixerBuilder& from,
                                 const LatentOptions& latent) {
  if (latent.width == 0) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      latent_in_, MakeProjection(from.weights, latent.in, D_, L_, from.linears,
                                 latent.bias));
  STEADYSTATE_ASSIGN_OR_RETURN(latent_out_,
                               MakeProjection(from.weights, latent.out, L_, D_,
                                              from.linears, latent.bias));
  return absl::OkStatus();
}

absl::Status Mixture::TakeExperts(const MixerBuilder& from,
                                  const ExpertNames& names) {
  for (const ExpertNames::Fused& fused : names.fused) {
    if (from.weights.Has(fused.up)) return TakeFused(from, fused);
  }
  for (size_t e = 0; e < router_.experts(); ++e) {
    STEADYSTATE_ASSIGN_OR_RETURN(Expert expert,
                                 TakeExpert(from, e, names.each));
    experts_.push_back(std::move(expert));
  }
  return absl::OkStatus();
}

absl::StatusOr<Mixture::Expert> Mixture::TakeExpert(
    const MixerBuilder& from, size_t expert, const MlpNames& names) const {
  const WeightScope weights =
      from.weights.Child(absl::StrCat("experts.", expert, "."));
  ProjectionStack stack(weights, L_);
  if (gated_) {
    STEADYSTATE_RETURN_IF_ERROR(stack.Add(names.gate, I_).status());
  }
  STEADYSTATE_RETURN_IF_ERROR(stack.Add(names.up, I_).status());
  Expert taken;
  STEADYSTATE_ASSIGN_OR_RETURN(taken.up, stack.Pack(from.linears));
  STEADYSTATE_ASSIGN_OR_RETURN(
      taken.down, MakeProjection(weights, names.down, I_, L_, from.linears));
  return taken;
}

absl::Status Mixture::TakeFused(const MixerBuilder& from,
                                const ExpertNames::Fused& names) {
  const size_t E = router_.experts();
  const size_t up_rows = (gated_ ? 2 : 1) * I_;
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData up,
                               from.weights.Take(names.up, {E, up_rows, L_}));
  STEADYSTATE_ASSIGN_OR_RETURN(const TypedData down,
                               from.weights.Take(names.down, {E, L_, I_}));
  for (size_t e = 0; e < E; ++e) {
    Expert& taken = experts_.emplace_back();
    STEADYSTATE_ASSIGN_OR_RETURN(
        taken.up, from.linears.Make(L_, {{RowsOfExpert(up, e, up_rows, L_)}}));
    STEADYSTATE_ASSIGN_OR_RETURN(
        taken.down, from.linears.Make(I_, {{RowsOfExpert(down, e, L_, I_)}}));
  }
  return absl::OkStatus();
}

void Mixture::Forward(std::span<const Segment> segments, size_t rows,
                      const float* x, float* y, Workspace& workspace) const {
  if (shared_ == nullptr) {
    std::fill_n(y, rows * D_, 0.0F);
  } else {
    shared_->Forward(segments, rows, x, y, workspace);
  }
  Workspace::Buffers& buffers = workspace.buffers();
  const RowScratch scratch = buffers.OfRows(rows);
  auto* const chosen = reinterpret_cast<Chosen*>(scratch[chosen_]);
  float* const gate = scratch[gate_];
  router_.Route(rows, x, chosen, gates_shared_ ? gate : nullptr, buffers);
  if (gates_shared_) {
    for (size_t row = 0; row < rows; ++row) Scale(gate[row], D_, y + row * D_);
  }
  if (latent_in_ == nullptr) {
    AddExperts(rows, chosen, x, y, buffers);
    return;
  }
  float* const latent = scratch[latent_];
  float* const sum = scratch[sum_];
  float* const out = scratch[out_];
  buffers.Project(*latent_in_, rows, x, D_, latent, L_);
  std::fill_n(sum, rows * L_, 0.0F);
  AddExperts(rows, chosen, latent, sum, buffers);
  buffers.Project(*latent_out_, rows, sum, L_, out, D_);
  AddTo(rows * D_, out, y);
}

void Mixture::AddExperts(size_t rows, const Chosen* chosen, const float* x,
                         float* y, Workspace::Buffers& buffers) const {
  auto* const shares = reinterpret_cast<Share*>(buffers.OfRows(rows)[shares_]);
  uint32_t* const starts = buffers.OfWorker(0)[starts_];
  Sort(rows, chosen, starts, shares);
  for (size_t e = 0; e < experts_.size(); ++e) {
    const size_t count = starts[e + 1] - starts[e];
    if (count == 0) continue;
    AddExpert(experts_[e], {shares + starts[e], count}, rows, x, y, buffers);
  }
}

void Mixture::Sort(size_t rows, const Chosen* chosen, uint32_t* starts,
                   Share* shares) const {
  const size_t E = experts_.size();
  const size_t count = rows * router_.chosen();
  std::fill_n(starts, E + 1, uint32_t{0});
  for (size_t i = 0; i < count; ++i) ++starts[chosen[i].expert];
  uint32_t end = 0;
  for (size_t e = 0; e <= E; ++e) starts[e] = end += starts[e];
  // From the last row on, so that each expert's are in order.
  for (size_t i = count; i > 0; --i) {
    const Chosen& of = chosen[i - 1];
    shares[--starts[of.expert]] = {
        .row = static_cast<uint32_t>((i - 1) / router_.chosen()),
        .weight = of.weight};
  }
}

void Mixture::AddExpert(const Expert& expert, std::span<const Share> shares,
                        size_t rows, const float* x, float* y,
                        Workspace::Buffers& buffers) const {
  const RowScratch scratch = buffers.OfRows(rows);
  const size_t count = shares.size();
  float* const gathered = scratch[gathered_];
  float* const hidden = scratch[hidden_];
  float* const out = scratch[out_];
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(gathered + i * L_, x + shares[i].row * L_, L_ * sizeof(float));
  }
  const size_t width = expert.up->out();
  buffers.Project(*expert.up, count, gathered, L_, hidden, width);
  buffers.ForRows(count, width, [&](size_t i, size_t) {
    float* const row = hidden + i * width;
    if (gated_) {
      ActivateGated(activation_, limit_, I_, row, row + I_, row);
    } else {
      Activate(activation_, I_, row, row);
    }
  });
  buffers.Project(*expert.down, count, hidden, width, out, L_);
  buffers.ForRows(count, L_, [&](size_t i, size_t) {
    Scale(shares[i].weight, L_, out + i * L_);
    AddTo(L_, out + i * L_, y + shares[i].row * L_);
  });
}

}  // namespace steadystate
