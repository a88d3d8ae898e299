#ifndef STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_
#define STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_

#include <cstddef>
#include <span>
#include <vector>

namespace steadystate {

// The recurrences of kernels/recurrence, one head each, written as their
// formulas in double, with the float inputs that the kernels get.

// S <- diag(decay) S + k v^T, then o <- scale * S^T q.
class KeyDecayReference {
 public:
  KeyDecayReference(size_t K, size_t V) : K_(K), V_(V), state_(K * V, 0.0) {}

  // Returns o, f64[V].
  std::vector<double> Step(double scale, std::span<const float> decay,
                           std::span<const float> q, std::span<const float> k,
                           std::span<const float> v);

  // f64[K, V].
  const std::vector<double>& state() const { return state_; }

 private:
  size_t K_;
  size_t V_;
  std::vector<double> state_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_
