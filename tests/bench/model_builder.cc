#include "tests/bench/model_builder.h"

#include <cmath>
#include <string>

namespace steadystate::bench {

void AddMamba2(const std::string& mixer, const Mamba2Sizes& sizes,
               double out_std, Builder& to) {
  const auto& [D, E, H, N] = sizes;
  const size_t conv = E + 2 * N;
  to.Matrix(mixer + "in_proj.weight", E + conv + H, D,
            std::sqrt(1.0 / (3.0 * static_cast<double>(D))));
  to.Uniform(mixer + "conv1d.weight", {conv, 1, 4}, -0.5, 0.5);
  to.Uniform(mixer + "conv1d.bias", {conv}, -0.5, 0.5);
  to.Add({mixer + "A_log", {H}, Draw::kLogOfUniform, 1, 16});
  to.Uniform(mixer + "D", {H}, 1, 1);
  to.Add({mixer + "dt_bias",
          {H},
          Draw::kInverseSoftplus,
          std::log(1e-3),
          std::log(1e-1)});
  to.Ones(mixer + "norm.weight", E);
  to.Matrix(mixer + "out_proj.weight", D, E, out_std);
}

}  // namespace steadystate::bench
