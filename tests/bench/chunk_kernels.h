#ifndef STEADYSTATE_TESTS_BENCH_CHUNK_KERNELS_H_
#define STEADYSTATE_TESTS_BENCH_CHUNK_KERNELS_H_

#include <cstddef>
#include <span>
#include <vector>

namespace steadystate::bench {

// What the chunk kernels take of one head of K x V over one chunk, scratch
// memory included. Of one thread.
class ChunkInputs {
 public:
  ChunkInputs(size_t key_width, size_t value_width);

  size_t K;
  size_t V;
  std::vector<float> alpha;       // f32[L, K], decays
  std::vector<float> q, k, v;     // f32[L, K], f32[L, K], f32[L, V]
  std::vector<float> beta;        // f32[L]
  std::vector<float> state;       // f32[K, V]
  std::vector<double> growing;    // f64[K, V], a state
  std::vector<float> added;       // f32[K, V], to that
  std::vector<float> o;           // f32[L, V]
  std::vector<float> u, faded;    // f32[L, V], scratch
  std::vector<float> keys;        // scratch
  std::vector<float> scores;      // scratch
  std::vector<float> fading;      // scratch
  std::vector<float> weights;     // scratch
  std::vector<float> key_decays;  // scratch
};

// A recurrence in matrix form, which advances one head by a chunk, or a part of
// such.
struct ChunkKernel {
  const char* name;
  size_t tokens;  // of a chunk
  // Flop of the formula, triangles counted as such.
  double (*flop)(double tokens, double K, double V);
  void (*run)(ChunkInputs& in);
};

std::span<const ChunkKernel> ChunkKernels();

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_CHUNK_KERNELS_H_
