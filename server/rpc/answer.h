#ifndef STEADYSTATE_SERVER_RPC_ANSWER_H_
#define STEADYSTATE_SERVER_RPC_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "server/base/error.h"
#include "server/engine/engine.h"
#include "server/engine/request.h"
#include "server/model/model.h"
#include "server/model/state_norms.h"
#include "server/session/session_events.h"
#include "server/session/session_info.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/model.pb.h"
#include "steadystate/v1/session.pb.h"

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

// What the engine answers, as messages of the API.

void SetDuration(absl::Duration duration, google::protobuf::Duration& to);

// "sessions/{id}".
std::string SessionName(absl::string_view id);

v1::PrefixReuse ToProto(std::optional<PrefixReuse> reuse);

void ToProto(const SessionInfo& info, absl::string_view model_id,
             v1::Session& to);
void ToProto(const SlotNorm& norm, v1::SlotNorm& to);
// Of a checkpoint.
void ToProto(const SessionInfo& info, v1::Checkpoint& to);
void ToProto(const SessionEvent& event, v1::SessionEvent& to);
void ToProto(const Engine& engine, v1::Model& to);

// `session` is "sessions/{id}".
void ToProto(const StepResult& result, absl::string_view session,
             v1::StepResponse& to);

// These add to what the message already holds.
void ToProto(const GeneratedToken& token, v1::GenerateResponse& to);
void ToProto(const GenerateSummary& summary, v1::GenerateResponse& to);
void ToProto(const ScoredToken& token, v1::ScoreResponse& to);
void ToProto(const ScoreSummary& summary, v1::ScoreResponse& to);
void ToProto(const EmbeddedRow& row, v1::EmbedResponse& to);
void ToProto(const EmbedSummary& summary, v1::EmbedResponse& to);

// The most that GoingAway takes within a message, on the wire.
inline constexpr size_t kGoingAwayBytes = 32;
void ToProto(absl::Time requests_until, v1::GoingAway& to);

// ErrorInfo.domain of every error.
inline constexpr absl::string_view kErrorDomain = "steadystate";

// Name of the trailer that repeats RetryInfo, in milliseconds, for gRPC's own
// retry policies.
inline constexpr char kPushbackTrailer[] = "grpc-retry-pushback-ms";

// An error as clients may see it: always with details, its texts short enough
// for the 8 KiB that HTTP/2 trailers may have.
struct PublicError {
  absl::StatusCode code = absl::StatusCode::kInternal;
  std::string message;
  ErrorDetails details;
};

// What to tell a client about `status`. A status without ErrorDetails was not
// written for clients: the client gets a generic text, with the reason that
// goes with INVALID_ARGUMENT, DEADLINE_EXCEEDED or CANCELLED, or else with
// INTERNAL, and only then does the text go to the log. REQUIRES: !status.ok().
PublicError ToPublicError(const absl::Status& status);

// For errors inside a stream: exactly one ErrorInfo, and RetryInfo if the error
// says when to retry.
google::rpc::Status ToRpcStatus(const PublicError& error);

// For the end of a call: the same google.rpc.Status in its error_details.
grpc::Status ToGrpcStatus(const PublicError& error);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ANSWER_H_
