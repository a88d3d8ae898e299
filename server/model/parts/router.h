#ifndef STEADYSTATE_SERVER_MODEL_PARTS_ROUTER_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/mixer_builder.h"
#include "server/model/scratch_plan.h"
#include "server/model/workspace.h"

namespace steadystate {

// How the experts of a mixture are chosen for a token, and what each of them
// counts for.
struct RouterOptions {
  // What the products with the router's rows become.
  enum class Scores : uint8_t {
    kSoftmax,  // over all experts
    kSigmoid,
  };
  size_t experts = 0;
  size_t chosen = 0;  // of them, for each token
  Scores scores = Scores::kSoftmax;
  // The scores of those that were chosen are divided by their sum and this;
  // nothing is divided if this is negative.
  float divided_with = 0;
  float factor = 1;  // of them
  // Within the mixer: the matrix [experts, D], and what is added to scores
  // where experts are chosen by them, f32[experts]; empty: nothing is.
  absl::string_view matrix = "gate.weight";
  absl::string_view bias = "";
  // Experts are chosen from the best `groups_kept` of so many equal groups. The
  // score of a group is the sum of its two best. REQUIRES: at most kMaxGroups;
  // groups divide the experts; groups_kept of them have as many as are chosen.
  size_t groups = 1;
  size_t groups_kept = 1;
  // A further row [1, D], of which the sigmoid counts for a shared expert;
  // empty: there is none.
  absl::string_view shared_gate = "";

  static constexpr size_t kMaxGroups = 64;
};

// An expert of a token, and what its output is multiplied by.
struct Chosen {
  uint32_t expert = 0;
  float weight = 0;
};

// Chooses experts. The router's matrix stays in float32 whatever other weights
// are in: near ties would fall otherwise. Immutable; thread-safe.
class Router {
 public:
  Router() = default;

  // INVALID_ARGUMENT of WeightScope::Take.
  static absl::StatusOr<Router> Make(const MixerBuilder& from,
                                     const RouterOptions& options);

  size_t experts() const { return options_.experts; }
  size_t chosen() const { return options_.chosen; }

  // Plans its scratch memory, which is its own from Route on.
  void Plan(RowScratchPlan& plan);

  // For each row the experts, in ascending order; a row's choice depends on
  // that row alone. Of equal scores the lower expert is taken.
  //   x       f32[rows, D]                in
  //   to      Chosen[rows, chosen()]      overwritten
  //   shared  f32[rows], or null: of the gate of the shared expert
  void Route(size_t rows, const float* x, Chosen* to, float* shared,
             Workspace::Buffers& buffers) const;

  // The same of one row from its products.
  //   products  f32[experts]    in/out: become scores
  //   biased    f32[experts]    scratch
  //   to        Chosen[chosen]  out
  void Choose(float* products, float* biased, Chosen* to) const;

 private:
  size_t columns() const { return options_.experts + (gated_ ? 1 : 0); }
  // Leaves -infinity to all experts but those of the best groups.
  void KeepGroups(float* biased) const;

  RouterOptions options_;
  size_t D_ = 0;
  bool gated_ = false;
  std::vector<float> matrix_;  // f32[D, columns()]
  std::vector<float> bias_;    // f32[experts], or empty
  RowSlice products_;          // columns()
  RowSlice biased_;            // experts
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_ROUTER_H_
