#ifndef STEADYSTATE_SERVER_RPC_ANSWER_SIZE_H_
#define STEADYSTATE_SERVER_RPC_ANSWER_SIZE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"

namespace steadystate {

// What answers take. On the wire they are bounded by what a message may have;
// in memory, as parts of messages and as gRPC keeps them until they are sent,
// by OutboundBudget.

// The error of an answer larger than messages may be.
absl::Status MessageTooLarge(size_t bytes, size_t limit);

// Before anything is computed: at least the bytes on the wire of the answer, or
// of an item of it.
size_t MostWireBytes(const StepOutputs& outputs, const Model& model);
size_t MostWireBytes(const ScoreRequest& request, const Model& model);
size_t MostWireBytes(const EmbedRequest& request, const Model& model);

// Of what has been computed: at least the bytes that these take within a
// message, a step's names left out.
size_t WireBytes(const StepResult& result);
size_t WireBytes(const GeneratedToken& token);
size_t WireBytes(const ScoredToken& token);
size_t WireBytes(const EmbeddedRow& row);

// Bytes of memory that a step's answer takes at most.
size_t AnswerMemory(const StepOutputs& outputs, const Engine& engine);

// The same of the answers to one piece of a request. A paused request holds
// that much more than the answers that wait.
size_t PieceMemory(const GenerateRequest& request);
size_t PieceMemory(const ScoreRequest& request, const Engine& engine);
size_t PieceMemory(const EmbedRequest& request, const Engine& engine);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ANSWER_SIZE_H_
