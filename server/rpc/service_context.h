#ifndef STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_
#define STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"
#include "server/rpc/fair_share.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/session_watchers.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {

// For turning a text into tokens, seconds for megabytes, or tokens into a text,
// or listing a thousand sessions. A text of 64 KiB takes some ten milliseconds.
inline constexpr TurnBounds kTextBounds = {
    .name = "texts",
    .what = "long texts",
    .instead = "try again, or send token ids",
    .long_bytes = size_t{64} << 10,
    .waiting = 512,
    .own_waiting = 4,
    .bytes = size_t{256} << 20,
    .own_bytes = size_t{64} << 10,
    .parts = 8};

// For reading large requests, some ten milliseconds for 4 MiB: `bytes` of them
// may wait, and one of `message_bytes` of each connection beside these.
inline constexpr TurnBounds ReadingBounds(size_t bytes, size_t message_bytes) {
  return {.name = "reading",
          .what = "large requests",
          .instead = "try again",
          .long_bytes = SIZE_MAX,
          .waiting = 1024,
          .own_waiting = 4,
          .bytes = bytes,
          .own_bytes = message_bytes,
          .parts = 2};
}

// What all services work with. Outlives every call.
struct ServiceContext {
  Engine& engine;
  Metrics& metrics;
  const Converter converter;
  const size_t max_message_bytes;
  const size_t max_steps_per_message;
  TakenBytes taken;
  InboundBudget inbound;
  OutboundBudget outbound;
  OpenStreams open_streams;
  SessionWatchers watchers;
  TurnThreads texts;
  TurnThreads reading;
};

// Answers that are ready together share a message up to this size.
inline constexpr size_t kCoalescedBytes = size_t{1} << 20;

// A stream whose answers take more memory than this, waiting to be written or
// expected to be, is not read any further, and its requests pause.
inline constexpr size_t kOutboundBytes = size_t{2} << 20;

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_
