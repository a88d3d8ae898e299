#ifndef STEADYSTATE_SERVER_RPC_PIECE_MEMORY_H_
#define STEADYSTATE_SERVER_RPC_PIECE_MEMORY_H_

#include <cstddef>

#include "server/engine/engine.h"
#include "server/engine/request.h"

namespace steadystate {

// Bytes that the answers to one piece of a request take at most until they are
// sent: as parts of messages, and as gRPC keeps them. A paused request holds
// that much more than the answers that wait; see OutboundBudget.
size_t PieceMemory(const GenerateRequest& request);
size_t PieceMemory(const ScoreRequest& request, const Engine& engine);
size_t PieceMemory(const EmbedRequest& request, const Engine& engine);

// The same of a step's answer.
size_t AnswerMemory(const StepOutputs& outputs, const Engine& engine);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_PIECE_MEMORY_H_
