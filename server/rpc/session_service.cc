#include "server/rpc/session_service.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/field_check.h"
#include "server/rpc/unary.h"

namespace steadystate {
namespace {

constexpr int32_t kDefaultPageSize = 100;
constexpr int32_t kMaxPageSize = 1000;

}  // namespace

SessionService::SessionService(ServiceContext& services)
    : TypedService(services) {
  Add("/steadystate.v1.SessionService/CreateSession",
      &SessionService::CreateSession);
  Add("/steadystate.v1.SessionService/GetSession", &SessionService::GetSession);
  Add("/steadystate.v1.SessionService/ListSessions",
      &SessionService::ListSessions);
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
  return AnswerUnary(
      services_, *context, "steadystate.v1.SessionService/ListSessions",
      *response,
      [this, request, response] { return List(*request, *response); });
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
  size_t page_size = static_cast<size_t>(
      request.page_size() == 0 ? kDefaultPageSize
                               : std::min(request.page_size(), kMaxPageSize));
  while (true) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const SessionPage page,
        services_.engine.ListSessions(page_size, request.page_token()));
    response.Clear();
    for (const SessionInfo& info : page.sessions) {
      SetSession(info, *response.add_sessions());
    }
    response.set_next_page_token(page.next_page_token);
    // Labels can make a long page larger than a message may be.
    if (response.ByteSizeLong() <= services_.max_message_bytes ||
        page_size == 1) {
      return absl::OkStatus();
    }
    page_size /= 2;
  }
}

void SessionService::SetSession(const SessionInfo& info,
                                v1::Session& to) const {
  ToProto(info, services_.engine.model().description().id, to);
}

}  // namespace steadystate
