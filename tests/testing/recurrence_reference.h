#ifndef STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_
#define STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_

#include <span>
#include <vector>

namespace steadystate {

// The recurrences of kernels/recurrence, one head each, written as their
// formulas in double, with the float inputs that the kernels get. K and V are
// the lengths of k and v. `state` is f64[K, V] in and out; each returns o,
// f64[V].

// S <- diag(decay) S + k v^T, then o <- scale * S^T q.
std::vector<double> KeyDecayReference(double scale,
                                      std::span<const float> decay,
                                      std::span<const float> q,
                                      std::span<const float> k,
                                      std::span<const float> v,
                                      std::vector<double>& state);

// S <- (decay_k decay_v^T) o S + k v^T, then o <- scale * S^T q.
std::vector<double> OuterDecayReference(double scale,
                                        std::span<const float> decay_k,
                                        std::span<const float> decay_v,
                                        std::span<const float> q,
                                        std::span<const float> k,
                                        std::span<const float> v,
                                        std::vector<double>& state);

// S_ij <- exp(-rate_ij step_j) S_ij + k_i v_j, then o <- scale * S^T q.
// rate is f32[K, V].
std::vector<double> FullDecayReference(
    double scale, std::span<const float> rate, std::span<const float> step,
    std::span<const float> q, std::span<const float> k,
    std::span<const float> v, std::vector<double>& state);

// S <- diag(decay_re + i decay_im) S + k v^T, then o <- scale * Re(S^T q).
// state is f64[2, K, V]: real parts, then imaginary ones.
std::vector<double> ComplexKeyDecayReference(double scale,
                                             std::span<const float> decay_re,
                                             std::span<const float> decay_im,
                                             std::span<const float> q,
                                             std::span<const float> k,
                                             std::span<const float> v,
                                             std::vector<double>& state);

// o <- (S + diag(bonus) k v^T)^T r, then S <- diag(decay) S + k v^T.
std::vector<double> BonusDecayReference(std::span<const float> decay,
                                        std::span<const float> bonus,
                                        std::span<const float> r,
                                        std::span<const float> k,
                                        std::span<const float> v,
                                        std::vector<double>& state);

// u = S^T a, S <- diag(decay) S + b u^T + k v^T, then o <- scale * S^T q.
std::vector<double> RankOneDecayReference(
    double scale, std::span<const float> decay, std::span<const float> a,
    std::span<const float> b, std::span<const float> q,
    std::span<const float> k, std::span<const float> v,
    std::vector<double>& state);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_RECURRENCE_REFERENCE_H_
