#ifndef STEADYSTATE_TESTS_BENCH_HYBRID_SHAPES_H_
#define STEADYSTATE_TESTS_BENCH_HYBRID_SHAPES_H_

#include "tests/bench/model_builder.h"
#include "tests/bench/shapes.h"

namespace steadystate::bench {

// The language model of Qwen3.5, every fourth layer softmax attention of heads
// of 256; the others have heads of 128, `heads` of keys and of values.
RandomModel Qwen35(const Sizes& sizes);

// LFM2, whose MLP is 2/3 as wide as `intermediate` says.
RandomModel Lfm2(const Sizes& sizes);

// Granite 4.0 H without experts: Mamba-2 as wide as twice the model, softmax
// attention without positions.
RandomModel Granite(const Sizes& sizes);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_HYBRID_SHAPES_H_
