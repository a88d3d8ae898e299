#ifndef STEADYSTATE_SERVER_RPC_ANSWER_H_
#define STEADYSTATE_SERVER_RPC_ANSWER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/session/session_info.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/model.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// What the engine answers, as messages of the API.

// "sessions/{id}".
std::string SessionName(absl::string_view id);

void ToProto(const SessionInfo& info, absl::string_view model_id,
             v1::Session& to);
void ToProto(const Engine& engine, v1::Model& to);

// `session` is "sessions/{id}".
void ToProto(const StepResult& result, absl::string_view session,
             v1::StepResponse& to);

// These add to what the message already holds.
void ToProto(const GeneratedToken& token, v1::GenerateResponse& to);
void ToProto(const GenerateSummary& summary, uint64_t seed,
             v1::GenerateResponse& to);
void ToProto(const ScoredToken& token, v1::ScoreResponse& to);
void ToProto(const ScoreSummary& summary, v1::ScoreResponse& to);
void ToProto(const EmbeddedRow& row, v1::EmbedResponse& to);
void ToProto(const EmbedSummary& summary, v1::EmbedResponse& to);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ANSWER_H_
