#ifndef STEADYSTATE_SERVER_ENGINE_ENGINE_OPTIONS_H_
#define STEADYSTATE_SERVER_ENGINE_ENGINE_OPTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "server/model/model.h"
#include "server/session/session_info.h"
#include "server/session/session_state.h"

namespace steadystate {

// Every limit of the engine. Engine::Create checks those that have bounds.
struct EngineOptions {
  uint64_t state_memory_bytes = uint64_t{4} << 30;  // budget of all sessions
  absl::Duration session_ttl = absl::Hours(1);
  // How many of its latest inputs a session remembers; in its charge.
  size_t history = 4096;
  // How many states that it had a session keeps in memory, to go back to; in
  // its charge. With a store it must be 0: the latest snapshot there serves.
  size_t snapshots = 0;
  // How many prompts are kept by themselves, for requests with reuse_prefix;
  // each is charged as a session, and gives way to sessions.
  size_t prefix_cache = 64;
  // How many checkpoints there may be; absent: SessionLimits' own bound.
  std::optional<size_t> max_checkpoints{};
  size_t threads = 1;           // compute thread included
  size_t max_batch_rows = 256;  // rows of one batch
  // Most rows of one session in one batch; 0: PrefillChunkRowsFor the model.
  size_t prefill_chunk_rows = 64;
  // How long prompts compute before the next decode batch: this long, or twice
  // as long as the last decode batch took if that is longer, and to the end of
  // the current layer.
  absl::Duration prefill_slice = absl::Milliseconds(10);
  size_t max_queued_per_session = 32;  // requests waiting on one session
  size_t max_queued_requests = 65536;  // requests waiting in all
  // Tokens and embeddings of all requests that have not been answered, and the
  // residual streams of bidirectional ones.
  uint64_t max_queued_input_bytes = uint64_t{1} << 30;
  size_t max_tokens_per_request = size_t{1} << 20;
  // Of one Step, which is not cut short: tokens or embeddings.
  size_t max_step_tokens = 4096;
  // Of a bidirectional Embed, whose residual stream is kept as a whole.
  size_t max_embed_tokens = 65536;
  size_t max_stop_strings = 16;
  size_t max_stop_string_bytes = 256;
  size_t max_stop_tokens = 256;
  size_t max_expired_remembered = 65536;  // ids that answer SESSION_EXPIRED
  // With a store: what all sessions may take there, and how long they are idle.
  uint64_t store_budget_bytes = uint64_t{64} << 30;
  absl::Duration hibernate_after = absl::Minutes(5);
  // What of a session outlives the process, unless the session says otherwise.
  Durability durability = Durability::kShutdown;
  // How much of the log a loss of power may cost, about, and how long a session
  // may take to be computed again from its snapshot and the log.
  absl::Duration log_sync_interval = absl::Seconds(1);
  absl::Duration max_replay = absl::Seconds(1);
  // Computes sessions again whose log was written under other numerics.
  bool allow_other_numerics = false;
};

// How sessions of the model lie in memory, and what one is charged.
SessionLayout SessionLayoutOf(const Model& model, const EngineOptions& options);

// EngineOptions::prefill_chunk_rows for a model's projections on this machine:
// 64, or, where these have found larger tiles for prompts, as many rows as the
// largest of them, 256 at most. Nothing but the CPU, oneDNN and the weights'
// type decide. At most `max_batch_rows`.
size_t PrefillChunkRowsFor(const LinearReport& linear, size_t max_batch_rows);

// Most rows of one piece of a Score or Embed, which answers `row_floats`
// numbers for each: kMaxAnsweredBytes of them, or one row; `chunk_rows` at
// most.
inline constexpr size_t kMaxAnsweredBytes = size_t{1} << 20;
constexpr size_t AnsweredRows(size_t row_floats, size_t chunk_rows) {
  return std::clamp<size_t>(kMaxAnsweredBytes / (row_floats * sizeof(float)), 1,
                            chunk_rows);
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_ENGINE_OPTIONS_H_
