#include "server/model/parts/mixer_sum.h"

#include <algorithm>
#include <utility>

#include "kernels/pointwise/activation.h"
#include "server/base/status_macros.h"
#include "server/model/parts/projection.h"
#include "server/model/workspace.h"

namespace steadystate {

absl::StatusOr<std::unique_ptr<Mixer>> MixerSum::Make(
    const MixerBuilder& from, const std::vector<Term>& terms) {
  auto sum = std::make_unique<MixerSum>();
  sum->D_ = from.hidden_size;
  // Theirs lie in one place, since they run one after the other; the sum's own
  // are there all the time.
  ScratchSize shared;
  for (const Term& term : terms) {
    STEADYSTATE_ASSIGN_OR_RETURN(std::unique_ptr<Mixer> mixer,
                                 term.make(from.PlanningIn(shared)));
    sum->parts_.push_back({term.scale, std::move(mixer)});
  }
  RowScratchPlan plan(from.scratch);
  plan.Add(shared.row_floats);
  sum->scaled_ = plan.Add(sum->D_);
  sum->mixed_ = plan.Add(sum->D_);
  from.scratch.worker_floats =
      std::max(from.scratch.worker_floats, shared.worker_floats);
  from.scratch.carry_floats =
      std::max(from.scratch.carry_floats, shared.carry_floats);
  return sum;
}

void MixerSum::Forward(std::span<const Segment> segments, size_t rows,
                       const float* x, float* y, Workspace& workspace) const {
  Workspace::Buffers& buffers = workspace.buffers();
  const RowScratch scratch = buffers.OfRows(rows);
  float* const scaled = scratch[scaled_];
  float* const mixed = scratch[mixed_];
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto& [scale, mixer] = parts_[i];
    if (scale.in != 1) {
      buffers.ForRows(rows, D_, [&, factor = scale.in](size_t row, size_t) {
        float* const to = scaled + row * D_;
        std::copy_n(x + row * D_, D_, to);
        Scale(factor, D_, to);
      });
    }
    float* const out = i == 0 ? y : mixed;
    mixer->Forward(segments, rows, scale.in == 1 ? x : scaled, out, workspace);
    buffers.ForRows(rows, D_, [&, factor = scale.out](size_t row, size_t) {
      Scale(factor, D_, out + row * D_);
      if (out != y) AddTo(D_, out + row * D_, y + row * D_);
    });
  }
}

}  // namespace steadystate
