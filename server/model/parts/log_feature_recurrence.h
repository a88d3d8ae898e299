#ifndef STEADYSTATE_SERVER_MODEL_PARTS_LOG_FEATURE_RECURRENCE_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_LOG_FEATURE_RECURRENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/parts/heads.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"

namespace steadystate {

// Normalised linear attention whose features are exponentials, given by their
// logarithms, which may be of any size:
//   S_t = S_{t-1} + e^{k_t} v_t^T,   z_t = z_{t-1} + e^{k_t}
//   kRatio:       o_t = S_t^T e^{q_t} / (z_t . e^{q_t})
//   kEachFeature: o_t = sum_c q_t[c] S_t[c] / z_t[c]
// (the latter is causal Efficient Attention; there q is plain). Each feature's
// rows of S and z are kept in units of e^(its largest key so far) and rescaled
// when that moves; a query's own units cancel. So z is at least 1 everywhere,
// and nothing overflows or vanishes that matters.
// H query heads read G state heads, H / G consecutive ones each.
// Immutable; thread-safe.
class LogFeatureRecurrence {
 public:
  enum class Readout : uint8_t { kRatio, kEachFeature };

  struct Options {
    size_t query_heads = 0;  // H
    size_t state_heads = 0;  // G, divides H
    size_t F = 0;            // features
    size_t V = 0;            // width of values
    Readout readout = Readout::kRatio;
  };

  // q is per query head, k and v per state head.
  struct Inputs {
    HeadRows q, k;  // f32[F], logarithms
    HeadRows v;     // f32[V]
  };

  LogFeatureRecurrence() = default;

  // Declares the state slots "S", f64[G, F, V], "Z", f64[G, F], and "max",
  // f32[G, F]. Errors as StateLayoutBuilder.
  static absl::StatusOr<LogFeatureRecurrence> Make(const MixerBuilder& builder,
                                                   const Options& options);

  // Advances all segments; every pass is possible.
  //   out  f32[rows, H V; stride out_stride]  overwritten
  void Run(std::span<const Segment> segments, const Inputs& inputs, float* out,
           size_t out_stride, Workspace::Buffers& buffers) const;

 private:
  // A worker's scratch memory.
  struct Places {
    WorkerSlice<double> exact_factors;         // f64[F]
    WorkerSlice<float> factors, key, weights;  // f32[F]
  };
  class Rule;

  // The weights with which a query reads the state, after the sums moved.
  //   weights  f32[F]  out
  // Returns what the result is to be divided by.
  double Weigh(const float* q, const float* max, const double* sums,
               float* weights) const;

  Options options_;
  DoubleSlotHandle state_;  // f64[G, F, V]
  DoubleSlotHandle sums_;   // f64[G, F]
  SlotHandle max_;          // f32[G, F]
  Places at_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_LOG_FEATURE_RECURRENCE_H_
