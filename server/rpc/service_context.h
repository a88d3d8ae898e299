#ifndef STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_
#define STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_

#include <cstddef>

#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/rpc/convert.h"
#include "server/rpc/inbound_budget.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/taken_bytes.h"
#include "server/rpc/text_threads.h"

namespace steadystate {

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
  TextThreads texts;
};

// Answers that are ready together share a message up to this size.
inline constexpr size_t kCoalescedBytes = size_t{1} << 20;

// A stream whose answers take more memory than this, waiting to be written or
// expected to be, is not read any further, and its requests pause.
inline constexpr size_t kOutboundBytes = size_t{2} << 20;

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SERVICE_CONTEXT_H_
