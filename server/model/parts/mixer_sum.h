#ifndef STEADYSTATE_SERVER_MODEL_PARTS_MIXER_SUM_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_MIXER_SUM_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/family.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/scratch_plan.h"

namespace steadystate {

// Several mixers of the same input, one after the other,
//   y = sum_i out_i mixer_i(in_i x)
// Immutable; thread-safe.
class MixerSum final : public Mixer {
 public:
  struct Term {
    MixerScale scale{};
    std::function<absl::StatusOr<std::unique_ptr<Mixer>>(
        const MixerBuilder& from)>
        make;
  };

  // Makes each of them from `from`; they share its scratch memory, and have no
  // slots of the same name. REQUIRES: there are some. Errors of theirs.
  static absl::StatusOr<std::unique_ptr<Mixer>> Make(
      const MixerBuilder& from, const std::vector<Term>& terms);

  void Forward(std::span<const Segment> segments, size_t rows, const float* x,
               float* y, Workspace& workspace) const override;

 private:
  struct Part {
    MixerScale scale;
    std::unique_ptr<Mixer> mixer;
  };

  std::vector<Part> parts_;
  size_t D_ = 0;     // hidden_size
  RowSlice scaled_;  // D: the input of one that scales it
  RowSlice mixed_;   // D: what one but the first puts out
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_MIXER_SUM_H_
