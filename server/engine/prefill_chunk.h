#ifndef STEADYSTATE_SERVER_ENGINE_PREFILL_CHUNK_H_
#define STEADYSTATE_SERVER_ENGINE_PREFILL_CHUNK_H_

#include <cstddef>

#include "server/model/model.h"

namespace steadystate {

// EngineOptions::prefill_chunk_rows for a model's projections on this machine:
// 64, or, where these have found larger tiles for prompts, as many rows as the
// largest of them, 256 at most. Nothing but the CPU, oneDNN and the weights'
// type decide. At most `max_batch_rows`.
size_t PrefillChunkRowsFor(const LinearReport& linear, size_t max_batch_rows);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_PREFILL_CHUNK_H_
