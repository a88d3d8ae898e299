#ifndef STEADYSTATE_SERVER_MODEL_PARTS_ROTARY_ROWS_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_ROTARY_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/workspace.h"

namespace steadystate {

// Rotary embedding of heads by their token's position in its session, with the
// angles position * base^(-2i/d) over the whole width d of a head. Immutable;
// thread-safe.
class RotaryRows {
 public:
  enum class Pairs : uint8_t {
    kHalves,       // x[i] with x[i + d/2]: GPT-NeoX, Llama
    kInterleaved,  // x[2i] with x[2i + 1]: GPT-J
  };
  struct Options {
    size_t heads = 0;  // that lie side by side in a row
    size_t d = 0;      // their width; even
    double base = 10000;
    Pairs pairs = Pairs::kHalves;
  };

  RotaryRows() = default;

  // INVALID_ARGUMENT if the width is odd; `width_key` names it.
  static absl::StatusOr<RotaryRows> Make(const MixerBuilder& builder,
                                         const Options& options,
                                         absl::string_view width_key);

  // Rotates in place.
  //   x  f32[rows of the batch, heads d; stride]
  void Run(std::span<const Segment> segments, float* x, size_t stride,
           Workspace::Buffers& buffers) const;

 private:
  // One row. `angles` is f32[d] scratch.
  void Rotate(uint64_t position, float* x, float* angles) const;

  Options options_;
  std::vector<double> frequencies_;  // f64[d / 2]
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_ROTARY_ROWS_H_
