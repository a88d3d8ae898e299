#ifndef STEADYSTATE_SERVER_CHECKPOINT_WEIGHT_STORE_H_
#define STEADYSTATE_SERVER_CHECKPOINT_WEIGHT_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/dtype.h"
#include "server/checkpoint/checkpoint.h"

namespace steadystate {

// The tensors of a checkpoint, pulled by whoever needs them: a layer asks for
// each tensor by name and shape, the loader knows no mechanism, and what nobody
// asked for is reported. Thread-compatible; the checkpoint outlives it.
class WeightStore {
 public:
  // Told when a tensor is taken for the first time: how many elements were
  // before, of how many that the checkpoint has.
  using Progress = std::function<void(uint64_t taken, uint64_t all)>;

  explicit WeightStore(const Checkpoint& checkpoint,
                       Progress progress = nullptr);

  bool Has(const std::string& name) const;

  // True if there is a tensor whose name begins so.
  bool HasAny(const std::string& prefix) const;

  // The shape of a tensor, or nothing if there is none of that name.
  std::optional<std::vector<size_t>> ShapeOf(const std::string& name) const;

  // True if both tensors are there and hold the same.
  bool Equal(const std::string& name, const std::string& other) const;

  // The tensor's elements where they lie in the mapped file. INVALID_ARGUMENT,
  // naming the tensor, if it is missing, its shape is another (both are given)
  // or its dtype is not F32, BF16 or F16.
  absl::StatusOr<TypedData> Take(const std::string& name,
                                 std::span<const size_t> shape);

  // The size of the one dimension of a tensor that the config leaves open: a
  // rank. It is written as kOpen in `shape`; all others have to be as given,
  // and it has to be at least 1. Errors as Take.
  static constexpr size_t kOpen = 0;
  absl::StatusOr<size_t> OpenSize(const std::string& name,
                                  std::span<const size_t> shape) const;

  // Elements of all tensors taken so far, each counted once.
  uint64_t parameters() const { return parameters_; }

  // Names of the tensors that nobody took, without buffers that libraries are
  // known to leave behind (*.rotary.inv_freq) and without those whose names
  // begin with one of `foreign`. Sorted.
  std::vector<std::string> Unused(
      std::span<const absl::string_view> foreign = {}) const;

 private:
  friend class WeightScope;
  absl::Status Missing(absl::string_view names, absl::string_view shape) const;
  absl::Status Misshapen(absl::string_view name, std::span<const size_t> found,
                         absl::string_view expected) const;

  const Checkpoint& checkpoint_;
  const Progress progress_;
  uint64_t elements_ = 0;  // of all tensors
  std::set<std::string> taken_;
  uint64_t parameters_ = 0;
};

// The part of a store whose names begin with a prefix; a cheap view.
class WeightScope {
 public:
  WeightScope(WeightStore& store, std::string prefix)
      : store_(&store), prefix_(std::move(prefix)) {}

  WeightScope Child(absl::string_view prefix) const;

  bool Has(absl::string_view name) const;
  // True if there is a tensor in this part at all.
  bool HasAny() const;
  std::optional<std::vector<size_t>> ShapeOf(absl::string_view name) const;
  bool Equal(absl::string_view name, absl::string_view other) const;

  // As WeightStore::OpenSize.
  static constexpr size_t kOpen = WeightStore::kOpen;
  absl::StatusOr<size_t> OpenSize(absl::string_view name,
                                  std::initializer_list<size_t> shape) const;

  // As WeightStore::Take.
  absl::StatusOr<TypedData> Take(absl::string_view name,
                                 std::initializer_list<size_t> shape) const;

  // The same, converted. For small tensors: norms, biases, taps.
  absl::StatusOr<std::vector<float>> TakeFloats(
      absl::string_view name, std::initializer_list<size_t> shape) const;

  // Whichever of two names exists; the error for a tensor that is missing names
  // both.
  absl::StatusOr<std::vector<float>> TakeFloatsOfEither(
      absl::string_view name, absl::string_view other_name,
      std::initializer_list<size_t> shape) const;

 private:
  std::string FullName(absl::string_view name) const;

  WeightStore* store_;
  std::string prefix_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_WEIGHT_STORE_H_
