#include "tests/testing/recurrence_reference.h"

#include <cmath>
#include <complex>
#include <cstddef>

namespace steadystate {
namespace {

// x[i] in double.
double At(std::span<const float> x, size_t i) {
  return static_cast<double>(x[i]);
}

// scale * S^T q.
std::vector<double> Read(double scale, std::span<const float> q, size_t V,
                         const std::vector<double>& state) {
  std::vector<double> o(V, 0.0);
  for (size_t i = 0; i < q.size(); ++i) {
    for (size_t j = 0; j < V; ++j) o[j] += scale * At(q, i) * state[i * V + j];
  }
  return o;
}

// S_ij <- decay(i, j) S_ij + k_i v_j.
template <class Decay>
void Update(std::span<const float> k, std::span<const float> v,
            const Decay& decay, std::vector<double>& state) {
  const size_t V = v.size();
  for (size_t i = 0; i < k.size(); ++i) {
    for (size_t j = 0; j < V; ++j) {
      double& s = state[i * V + j];
      s = decay(i, j) * s + At(k, i) * At(v, j);
    }
  }
}

}  // namespace

std::vector<double> KeyDecayReference(double scale,
                                      std::span<const float> decay,
                                      std::span<const float> q,
                                      std::span<const float> k,
                                      std::span<const float> v,
                                      std::vector<double>& state) {
  Update(
      k, v, [=](size_t i, size_t) { return At(decay, i); }, state);
  return Read(scale, q, v.size(), state);
}

std::vector<double> OuterDecayReference(double scale,
                                        std::span<const float> decay_k,
                                        std::span<const float> decay_v,
                                        std::span<const float> q,
                                        std::span<const float> k,
                                        std::span<const float> v,
                                        std::vector<double>& state) {
  const auto decay = [=](size_t i, size_t j) {
    return At(decay_k, i) * At(decay_v, j);
  };
  Update(k, v, decay, state);
  return Read(scale, q, v.size(), state);
}

std::vector<double> FullDecayReference(
    double scale, std::span<const float> rate, std::span<const float> step,
    std::span<const float> q, std::span<const float> k,
    std::span<const float> v, std::vector<double>& state) {
  const auto decay = [=](size_t i, size_t j) {
    return std::exp(-At(rate, i * v.size() + j) * At(step, j));
  };
  Update(k, v, decay, state);
  return Read(scale, q, v.size(), state);
}

std::vector<double> ComplexKeyDecayReference(double scale,
                                             std::span<const float> decay_re,
                                             std::span<const float> decay_im,
                                             std::span<const float> q,
                                             std::span<const float> k,
                                             std::span<const float> v,
                                             std::vector<double>& state) {
  const size_t V = v.size();
  for (size_t i = 0; i < k.size(); ++i) {
    const std::complex<double> decay(At(decay_re, i), At(decay_im, i));
    for (size_t j = 0; j < V; ++j) {
      double& re = state[i * V + j];
      double& im = state[(k.size() + i) * V + j];
      const std::complex<double> s =
          decay * std::complex<double>(re, im) + At(k, i) * At(v, j);
      re = s.real();
      im = s.imag();
    }
  }
  return Read(scale, q, V, state);
}

std::vector<double> BonusDecayReference(std::span<const float> decay,
                                        std::span<const float> bonus,
                                        std::span<const float> r,
                                        std::span<const float> k,
                                        std::span<const float> v,
                                        std::vector<double>& state) {
  const size_t V = v.size();
  std::vector<double> seen(state);
  for (size_t i = 0; i < k.size(); ++i) {
    for (size_t j = 0; j < V; ++j) {
      seen[i * V + j] += At(bonus, i) * At(k, i) * At(v, j);
    }
  }
  Update(
      k, v, [=](size_t i, size_t) { return At(decay, i); }, state);
  return Read(1.0, r, V, seen);
}

std::vector<double> RankOneDecayReference(
    double scale, std::span<const float> decay, std::span<const float> a,
    std::span<const float> b, std::span<const float> q,
    std::span<const float> k, std::span<const float> v,
    std::vector<double>& state) {
  const size_t V = v.size();
  const std::vector<double> u = Read(1.0, a, V, state);
  Update(
      k, v, [=](size_t i, size_t) { return At(decay, i); }, state);
  for (size_t i = 0; i < k.size(); ++i) {
    for (size_t j = 0; j < V; ++j) state[i * V + j] += At(b, i) * u[j];
  }
  return Read(scale, q, V, state);
}

}  // namespace steadystate
