#ifndef STEADYSTATE_SERVER_MODEL_NORM_H_
#define STEADYSTATE_SERVER_MODEL_NORM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/weight_store.h"

namespace steadystate {

// How a model normalises its residual stream.
struct NormStyle {
  enum class Kind : uint8_t {
    kRms,    // x / rms(x) * weight + bias
    kLayer,  // (x - mean) / deviation * weight + bias
  };
  Kind kind = Kind::kRms;
  // What is stored is the weight less 1.
  bool zero_centred = false;
  bool bias = false;
  float eps = 0;
};

// A norm of the residual stream. Immutable; thread-safe.
class Norm {
 public:
  Norm() = default;

  // Pulls `<name>.weight`, [size], and where the style has one `<name>.bias`.
  static absl::StatusOr<Norm> Make(const NormStyle& style,
                                   const WeightScope& weights,
                                   absl::string_view name, size_t size);

  size_t size() const { return weight_.size(); }

  //   x, y  f32[size()]   in, out; y may be x
  void Apply(const float* x, float* y) const;

 private:
  NormStyle style_;
  std::vector<float> weight_;
  std::vector<float> bias_;  // empty: none
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_NORM_H_
