#include "server/rpc/session_service.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/convert.h"
#include "server/rpc/fork_call.h"
#include "server/rpc/unary.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

constexpr size_t kDefaultPageSize = 100;
// Sessions that are described under one lock of the engine.
constexpr size_t kSessionsAtOnce = 64;
// What a session in a list takes in work and memory, few labels assumed.
constexpr UnaryCost kSessionCost = {.work = 64, .answer = 1024};
// The framing of a session in a list.
constexpr size_t kFramingBytes = 6;

size_t PageSize(const v1::ListSessionsRequest& request) {
  if (request.page_size() == 0) return kDefaultPageSize;
  return std::min(static_cast<size_t>(std::max(request.page_size(), 0)),
                  kMaxPageSize);
}

}  // namespace

SessionService::SessionService(ServiceContext& services)
    : TypedService(services) {
  Add("/steadystate.v1.SessionService/CreateSession",
      &SessionService::CreateSession);
  Add("/steadystate.v1.SessionService/GetSession", &SessionService::GetSession);
  Add("/steadystate.v1.SessionService/ListSessions",
      &SessionService::ListSessions);
  Add("/steadystate.v1.SessionService/ForkSession",
      &SessionService::ForkSession);
  Add("/steadystate.v1.SessionService/DeleteSession",
      &SessionService::DeleteSession);
}

grpc::ServerUnaryReactor* SessionService::CreateSession(
    grpc::CallbackServerContext* context,
    const v1::CreateSessionRequest* request, v1::Session* response) {
  return AnswerUnary(
      services_, *context, "steadystate.v1.SessionService/CreateSession",
      *response, [this, request, response]() -> absl::Status {
        STEADYSTATE_ASSIGN_OR_RETURN(
            const SessionOptions options,
            services_.converter.ToSessionOptions(*request));
        STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo info,
                                     services_.engine.CreateSession(options));
        SetSession(info, *response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SessionService::GetSession(
    grpc::CallbackServerContext* context, const v1::GetSessionRequest* request,
    v1::Session* response) {
  return AnswerUnary(
      services_, *context, "steadystate.v1.SessionService/GetSession",
      *response, [this, request, response]() -> absl::Status {
        STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                                     ParseSessionName("name", request->name()));
        STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo info,
                                     services_.engine.GetSession(id));
        SetSession(info, *response);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* SessionService::ListSessions(
    grpc::CallbackServerContext* context,
    const v1::ListSessionsRequest* request,
    v1::ListSessionsResponse* response) {
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.SessionService/ListSessions",
      UnaryCost{.work = PageSize(*request) * kSessionCost.work,
                .answer = PageSize(*request) * kSessionCost.answer},
      *response,
      [this, request, response] { return List(*request, *response); });
}

grpc::ServerUnaryReactor* SessionService::ForkSession(
    grpc::CallbackServerContext* context, const v1::ForkSessionRequest* request,
    v1::ForkSessionResponse* response) {
  return ForkCall::Start(services_, *context, *request, *response);
}

grpc::ServerUnaryReactor* SessionService::DeleteSession(
    grpc::CallbackServerContext* context,
    const v1::DeleteSessionRequest* request,
    google::protobuf::Empty* response) {
  return AnswerUnary(
      services_, *context, "steadystate.v1.SessionService/DeleteSession",
      *response, [this, request]() -> absl::Status {
        STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                                     ParseSessionName("name", request->name()));
        return services_.engine.DeleteSession(id);
      });
}

absl::Status SessionService::List(const v1::ListSessionsRequest& request,
                                  v1::ListSessionsResponse& response) {
  if (request.page_size() < 0) {
    return OutOfBounds("page_size", request.page_size(), "at least 0");
  }
  // Labels can make a long page larger than a message may be. The least that
  // this can be holds any one session.
  const size_t max_bytes =
      services_.max_message_bytes - kFramingBytes - kMaxPageTokenBytes;
  size_t bytes = 0;
  size_t left = PageSize(request);
  std::string token = request.page_token();
  do {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const SessionPage page,
        services_.engine.ListSessions(std::min(left, kSessionsAtOnce), token));
    for (const SessionInfo& info : page.sessions) {
      v1::Session& added = *response.add_sessions();
      SetSession(info, added);
      bytes += added.ByteSizeLong() + kFramingBytes;
      if (bytes > max_bytes) {
        response.mutable_sessions()->RemoveLast();
        response.set_next_page_token(token);
        return absl::OkStatus();
      }
      token = MakePageToken(info.id);
    }
    left -= page.sessions.size();
    token = page.next_page_token;
  } while (left > 0 && !token.empty());
  response.set_next_page_token(token);
  return absl::OkStatus();
}

void SessionService::SetSession(const SessionInfo& info,
                                v1::Session& to) const {
  ToProto(info, services_.engine.model().description().id, to);
}

}  // namespace steadystate
