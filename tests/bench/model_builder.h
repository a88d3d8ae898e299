#ifndef STEADYSTATE_TESTS_BENCH_MODEL_BUILDER_H_
#define STEADYSTATE_TESTS_BENCH_MODEL_BUILDER_H_

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/shapes.h"

namespace steadystate::bench {

// What sets the families' checkpoints apart; what a model lacks is 0.
struct Sizes {
  size_t hidden;
  size_t layers;
  size_t vocab;
  size_t heads = 0;
  size_t intermediate = 0;
  size_t state = 0;          // Mamba-2: N
  size_t head = 0;           // Mamba-2: P
  size_t softmax_heads = 0;  // of hybrids
  size_t kv_heads = 0;
  std::span<const size_t> softmax_layers{};
};

// The deviation of the values that most matrices begin with.
inline constexpr double kStd = 0.02;

// Collects the tensors of a random checkpoint.
class Builder {
 public:
  // The values that a linear layer begins with: zero mean, given deviation.
  void Matrix(const std::string& name, size_t out, size_t in, double std) {
    const double width = std * std::sqrt(3.0);
    tensors_.push_back(
        {name, {out, in}, Draw::kUniform, -width, width, /*matrix=*/true});
  }
  void Uniform(const std::string& name, std::vector<size_t> shape, double low,
               double high) {
    tensors_.push_back({name, std::move(shape), Draw::kUniform, low, high});
  }
  void Ones(const std::string& name, size_t size) {
    Uniform(name, {size}, 1, 1);
  }
  void Zeros(const std::string& name, size_t size) {
    Uniform(name, {size}, 0, 0);
  }
  void Add(RandomTensor tensor) { tensors_.push_back(std::move(tensor)); }

  std::vector<RandomTensor> Take() { return std::move(tensors_); }

 private:
  std::vector<RandomTensor> tensors_;
};

// Of a Mamba-2 layer with one group.
struct Mamba2Sizes {
  size_t hidden;
  size_t width;  // of all heads
  size_t heads;
  size_t state;
};

// The layer's tensors as mamba_ssm initialises them, dt between 1e-3 and 1e-1,
// A between 1 and 16; out_proj with the deviation given.
void AddMamba2(const std::string& mixer, const Mamba2Sizes& sizes,
               double out_std, Builder& to);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_MODEL_BUILDER_H_
