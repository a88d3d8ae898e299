#ifndef STEADYSTATE_SERVER_MODEL_PARTS_QUERY_KEY_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_QUERY_KEY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/workspace.h"

namespace steadystate {

// Rotary embedding of heads by their token's position in its session, with the
// angles position * base^(-2i/r) over the first r elements of a head; the
// others stay. Immutable; thread-safe.
class RotaryRows {
 public:
  enum class Pairs : uint8_t {
    kHalves,       // x[i] with x[i + r/2]: GPT-NeoX, Llama
    kInterleaved,  // x[2i] with x[2i + 1]: GPT-J
  };
  struct Options {
    size_t heads = 0;                 // that lie side by side in a row
    size_t d = 0;                     // their width
    std::optional<size_t> rotated{};  // r, even; absent: d
    std::optional<size_t> turning{};  // pairs, the first ones; absent: all
    double base = 10000;
    Pairs pairs = Pairs::kHalves;
  };

  RotaryRows() = default;

  // INVALID_ARGUMENT if r is odd; `width_key` names the width.
  static absl::StatusOr<RotaryRows> Make(const MixerBuilder& builder,
                                         const Options& options,
                                         absl::string_view width_key);

  // Rotates in place.
  //   x  f32[rows of the batch, heads d; stride]
  void Run(std::span<const Segment> segments, float* x, size_t stride,
           Workspace::Buffers& buffers) const;

 private:
  // One row. `angles` is f32[r] scratch.
  void Rotate(uint64_t position, float* x, float* angles) const;

  Options options_;
  size_t rotated_ = 0;               // r
  std::vector<double> frequencies_;  // f64[r / 2]
  WorkerSlice<float> angles_;        // r
};

// The feature maps of linear attention, phi(x) of the vector x of a head,
// d wide. The first eight are fla's; with the others the result is always
// divided by the sum of its weights.
enum class FeatureMapKind : uint8_t {
  kElementwiseProduct,  // (W1 x + b1) o (W2 x + b2)
  kElu,                 // elu(x) + 1
  kRelu,
  kIdentity,
  kHedgehog,         // softmax of [2 (W x + b), -2 (W x + b)]
  kT2r,              // relu(W x)
  kDpfp,             // products of [relu(x), -relu(x)] with itself, rolled
  kDpfpPaper,        // the same of [relu(x), relu(-x)]
  kHedgehogExp,      // [exp(W x), exp(-W x)], as published
  kHedgehogSoftmax,  // [softmax(x W_h), softmax(-x W_h)], as LoLCATs
  kSoftmax,          // softmax over the d elements
  kEfficient,        // queries: softmax; keys: exp(k)
  kCosine,           // [1, x / |x|]
  kTaylor,           // second order
  kPerformer,        // exp(w x' - |x'|^2 / 2), x' = x d^-1/4
};

// The kind called `name` in a config.json, or nothing.
std::optional<FeatureMapKind> FeatureMapFromName(absl::string_view name);

// All names, "elu, relu, ...", for messages.
std::string FeatureMapNames();

// What a kind fixes beside the map itself.
struct FeatureMapTraits {
  // Features are exponentials: Apply gives their logarithms.
  bool logarithmic = false;
  // The result is divided by the sum of its weights plus eps, without scale.
  bool always_normalized = false;
  float eps = 1e-10f;
  // Each query head has parameters of its own.
  bool parameters_per_head = false;
};
FeatureMapTraits TraitsOf(FeatureMapKind kind);

// A map with its parameters. Immutable; thread-safe.
class FeatureMap {
 public:
  enum class Side : uint8_t { kQuery, kKey };

  FeatureMap() = default;

  // Pulls the parameters under feature_map_q. or feature_map_k.; with `tied`
  // whichever of the two there is, for both. `heads` is that of the queries.
  static absl::StatusOr<FeatureMap> Make(const MixerBuilder& builder,
                                         FeatureMapKind kind, Side side,
                                         bool tied, size_t heads, size_t d);

  // Features of a vector.
  size_t width() const { return width_; }
  // Floats of scratch memory that Apply needs.
  size_t scratch() const { return 2 * rank_ + d_; }

  //   x  f32[d] in;  y  f32[width()] out;  scratch  f32[scratch()]
  // `head` chooses the parameters where each head has its own.
  void Apply(size_t head, const float* x, float* scratch, float* y) const;

 private:
  absl::Status TakeParameters(const MixerBuilder& builder, bool tied,
                              size_t heads);
  absl::Status TakeProduct(const WeightScope& weights);
  absl::Status TakeMatrix(const WeightScope& weights);
  absl::Status TakeMatrixPerHead(const WeightScope& weights, size_t heads);
  absl::Status TakeProjection(const WeightScope& weights);
  size_t Width() const;
  // Apply of the kinds with parameters.
  void ApplyLearned(size_t head, const float* x, float* scratch,
                    float* y) const;

  FeatureMapKind kind_ = FeatureMapKind::kIdentity;
  Side side_ = Side::kQuery;
  size_t d_ = 0;
  size_t rank_ = 0;  // rows of the matrix
  size_t width_ = 0;
  float input_scale_ = 1;             // d^-1/4, of kPerformer
  std::vector<float> matrix_;         // f32[rank, d] or f32[heads, rank, d]
  std::vector<float> second_matrix_;  // f32[d, d]
  std::vector<float> bias_, second_bias_;  // f32[d] or empty
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_QUERY_KEY_H_
