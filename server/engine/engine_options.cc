#include "server/engine/engine_options.h"

#include <algorithm>

namespace steadystate {
namespace {

// Without larger tiles more rows are not faster, and live streams wait longer.
constexpr size_t kFewest = 64;
// With AMX and mamba2-130m 64, 128, 256 and 512 rows read prompts beside live
// streams at 1,096, 1,635, 1,765 and 2,023 tokens/s, and the streams' p99 is
// 102, 91, 107 and 113 ms: beyond 256 they would pay more than prompts gain.
constexpr size_t kMost = 256;

}  // namespace

SessionLayout SessionLayoutOf(const Model& model,
                              const EngineOptions& options) {
  return {model.state_layout(), model.description().hidden_size,
          options.history, options.snapshots, model.description().context_cap};
}

size_t PrefillChunkRowsFor(const LinearReport& linear, size_t max_batch_rows) {
  size_t largest = kFewest;
  for (const LinearReport::Shape& shape : linear.shapes) {
    if (shape.prefill_tiles.empty()) continue;
    largest = std::max(largest, shape.prefill_tiles.back());
  }
  return std::min({largest, kMost, max_batch_rows});
}

}  // namespace steadystate
