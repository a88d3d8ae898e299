#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MIXTURE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "kernels/pointwise/activation.h"
#include "server/checkpoint/config.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/router.h"
#include "server/model/scratch_plan.h"
#include "server/model/weight_names.h"

namespace steadystate {

// What a checkpoint calls the matrices of the experts of a mixture: those of
// each by itself, "experts.N." and the names of an MLP; or those of all in one
// tensor, [E, rows, columns], the gates' rows before the others.
struct ExpertNames {
  MlpNames each{};  // an empty gate: experts have none
  // The first pair of which there is the first.
  struct Fused {
    // D, or what their inputs are projected to.
    absl::string_view up;    // [E, 2 I, D], or [E, I, D] without gates
    absl::string_view down;  // [E, D, I]
  };
  std::span<const Fused> fused{};
};

// Experts that work on a narrower projection of what the mixture gets, while
// its router and the shared expert see the whole.
struct LatentOptions {
  size_t width = 0;  // L; 0: experts see the whole, too
  Bias bias = Bias::kNone;
  absl::string_view in = "fc1_latent_proj";   // [L, D]
  absl::string_view out = "fc2_latent_proj";  // [D, L]
};

struct MixtureOptions {
  RouterOptions router;
  size_t width = 0;  // I, of an expert
  LatentOptions latent{};
  Activation activation = Activation::kSilu;
  float limit = 0;  // as MlpScale::limit, of experts with gates
  ExpertNames names{};
  // Makes the expert that all tokens have; null: there is none.
  std::function<absl::StatusOr<std::unique_ptr<Mixer>>(
      const MixerBuilder& from)>
      make_shared{};
};

// What a family's mixture is where the config is silent.
struct ExpertDefaults {
  size_t count = 0;
  size_t chosen = 0;
  absl::string_view count_key = "num_experts";
  absl::string_view chosen_key = "num_experts_per_tok";
};

// Reads how many experts there are, at least 1, and how many a token has, at
// most so many. Errors name the key.
absl::Status ReadExperts(const Config& config, const ExpertDefaults& defaults,
                         RouterOptions& router);

// The same of a router as DeepSeek-V3's.
struct GroupedRouterDefaults {
  ExpertDefaults experts{};
  size_t groups = 1;
  size_t groups_kept = 1;  // `topk_group`
  float factor = 1;        // `routed_scaling_factor`
  absl::string_view divided_key = "norm_topk_prob";
  absl::string_view groups_key = "n_group";
};

// Reads the router of a mixture as DeepSeek-V3 has it: sigmoids, of the best
// groups the best with a correction added, divided by their sum unless the
// config says otherwise. Errors name the key.
absl::Status ReadGroupedRouter(const Config& config,
                               const GroupedRouterDefaults& defaults,
                               RouterOptions& router);

// A mixture of experts, for each token by itself: no state.
//   y = sum_e w_e E_e(x) + g E_shared(x), over the experts e that the router
//   chose, with weights w_e; g = sigmoid(w_s x), or 1
//   E(x) = W_down (act(W_gate x) * (W_up x)), or W_down act(W_up x)
// or with W_in and W_out around the sum, W_out sum_e w_e E_e(W_in x).
// The rows of a batch are taken expert by expert: the weights of each are read
// once, and those of an expert that no row has, not at all. What a row gets is
// added in the order of the experts, whoever shares its batch. Immutable;
// thread-safe.
class Mixture final : public Mixer {
 public:
  // Errors name the key or tensor.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      const MixerBuilder& from, const MixtureOptions& options);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;
  bool per_token() const override { return true; }

 private:
  struct Expert {
    std::unique_ptr<Linear> up;    // L -> 2 I, the gate first; or I
    std::unique_ptr<Linear> down;  // I -> L
  };
  // A row that an expert has, and what its output counts for.
  struct Share {
    uint32_t row;
    float weight;
  };

  absl::Status TakeExperts(const MixerBuilder& from, const ExpertNames& names);
  absl::StatusOr<Expert> TakeExpert(const MixerBuilder& from, size_t expert,
                                    const MlpNames& names) const;
  absl::Status TakeFused(const MixerBuilder& from,
                         const ExpertNames::Fused& names);

  void Plan(const MixerBuilder& from);
  absl::Status TakeLatent(const MixerBuilder& from,
                          const LatentOptions& latent);

  // Sorts what was chosen by expert: those of expert e are [starts[e],
  // starts[e + 1]), in the order of their rows.
  //   starts  u32[experts + 1]  overwritten
  void Sort(size_t rows, const Chosen* chosen, uint32_t* starts,
            Share* shares) const;
  // Adds what all experts make of their rows.
  //   x  f32[rows, L]  in
  //   y  f32[rows, L]  in/out
  void AddExperts(size_t rows, const Chosen* chosen, const float* x, float* y,
                  Workspace::Buffers& buffers) const;
  // Adds what one expert makes of its rows.
  void AddExpert(const Expert& expert, std::span<const Share> shares,
                 size_t rows, const float* x, float* y,
                 Workspace::Buffers& buffers) const;

  size_t D_ = 0;
  size_t L_ = 0;  // width of what experts see; D where nothing is projected
  size_t I_ = 0;
  bool gated_ = true;
  float limit_ = 0;
  Activation activation_ = Activation::kSilu;
  Router router_;
  std::vector<Expert> experts_;
  std::unique_ptr<Linear> latent_in_;   // D -> L, or null
  std::unique_ptr<Linear> latent_out_;  // L -> D, or null
  std::unique_ptr<Mixer> shared_;       // or null
  bool gates_shared_ = false;
  RowSlice chosen_;               // Chosen[chosen()]
  RowSlice shares_;               // Share[chosen()]
  RowSlice gate_;                 // 1, of the shared expert
  RowSlice gathered_;             // L
  RowSlice hidden_;               // 2 I, or I
  RowSlice out_;                  // max(D, L)
  RowSlice latent_;               // L, where there is a projection
  RowSlice sum_;                  // likewise
  WorkerSlice<uint32_t> starts_;  // experts + 1
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MIXTURE_H_
