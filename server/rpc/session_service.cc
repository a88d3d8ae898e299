#include "server/rpc/session_service.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"
#include "server/rpc/export_call.h"
#include "server/rpc/import_call.h"
#include "server/rpc/service_context.h"
#include "server/rpc/unary.h"
#include "server/rpc/watch_call.h"
#include "server/rpc/work_call.h"
#include "server/session/session_id.h"
#include "server/session/session_info.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {
namespace {

constexpr size_t kDefaultPageSize = 100;
// Sessions that are described under one lock of the engine.
constexpr size_t kSessionsAtOnce = 64;
// How often the engine is asked for one page: what few sessions match may take
// several.
constexpr size_t kLooksOfPage = 64;
// What a session in a list takes in work and memory, few labels assumed.
constexpr UnaryCost kSessionCost = {.work = 64, .answer = 1024};
// The framing of a session in a list.
constexpr size_t kFramingBytes = 6;

size_t PageSize(int32_t wanted) {
  if (wanted == 0) return kDefaultPageSize;
  return std::min(static_cast<size_t>(std::max(wanted, 0)), kMaxPageSize);
}

// Fills in a page of what the query asks for: `set`, (info, message), what
// there is of each.
template <typename Request, typename Message, typename Response, typename Set>
absl::Status FillPage(const ServiceContext& services, const SessionQuery& query,
                      const Request& request,
                      google::protobuf::RepeatedPtrField<Message>& to,
                      Response& response, const Set& set) {
  if (request.page_size() < 0) {
    return OutOfBounds("page_size", request.page_size(), "at least 0");
  }
  // Labels can make a long page larger than a message may be. The least that
  // this can be holds any one of them.
  const size_t max_bytes =
      services.max_message_bytes - kFramingBytes - kMaxPageTokenBytes;
  size_t bytes = 0;
  size_t left = PageSize(request.page_size());
  size_t looks_left = kLooksOfPage;
  std::string token = request.page_token();
  do {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const SessionPage page,
        services.engine.ListSessions(std::min(left, kSessionsAtOnce), token,
                                     query));
    for (const SessionInfo& info : page.sessions) {
      Message& added = *to.Add();
      set(info, added);
      bytes += added.ByteSizeLong() + kFramingBytes;
      if (bytes > max_bytes) {
        to.RemoveLast();
        response.set_next_page_token(token);
        return absl::OkStatus();
      }
      token = MakePageToken(info.id);
    }
    left -= page.sessions.size();
    token = page.next_page_token;
  } while (left > 0 && !token.empty() && --looks_left > 0);
  response.set_next_page_token(token);
  return absl::OkStatus();
}

UnaryCost CostOfPage(int32_t page_size) {
  return {.work = PageSize(page_size) * kSessionCost.work,
          .answer = PageSize(page_size) * kSessionCost.answer};
}

using Done = std::function<void(const absl::Status&)>;

// Carries out a method about one session that the engine says the end of, from
// another thread maybe: `order`, (id, done) -> absl::Status, has it call `done`
// once, unless it fails. gRPC keeps the call until then.
template <typename Id, typename Order>
grpc::ServerUnaryReactor* AnswerWhenDone(ServiceContext& services,
                                         grpc::CallbackServerContext& context,
                                         absl::string_view method,
                                         const absl::StatusOr<Id>& id,
                                         const Order& order) {
  const auto record = std::make_shared<CallRecord>(method, context, services);
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  const Done finish = [record, reactor](const absl::Status& status) {
    reactor->Finish(record->End(status));
  };
  const absl::Status refused = id.ok() ? order(*id, finish) : id.status();
  if (!refused.ok()) finish(refused);
  return reactor;
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
  Add("/steadystate.v1.SessionService/UpdateSession",
      &SessionService::UpdateSession);
  Add("/steadystate.v1.SessionService/RewindSession",
      &SessionService::RewindSession);
  Add("/steadystate.v1.SessionService/CreateCheckpoint",
      &SessionService::CreateCheckpoint);
  Add("/steadystate.v1.SessionService/ListCheckpoints",
      &SessionService::ListCheckpoints);
  Add("/steadystate.v1.SessionService/DeleteCheckpoint",
      &SessionService::DeleteCheckpoint);
  Add("/steadystate.v1.SessionService/ExportSession",
      &SessionService::ExportSession);
  Add("/steadystate.v1.SessionService/ImportSession",
      &SessionService::ImportSession);
  Add("/steadystate.v1.SessionService/HibernateSession",
      &SessionService::HibernateSession);
  Add("/steadystate.v1.SessionService/DeleteSession",
      &SessionService::DeleteSession);
  Add("/steadystate.v1.SessionService/WatchSessions",
      &SessionService::WatchSessions);
}

grpc::ServerUnaryReactor* SessionService::CreateSession(
    grpc::CallbackServerContext* context,
    const v1::CreateSessionRequest* request, v1::Session* response) {
  if (!request->from_checkpoint().empty()) {
    return CreateFromCheckpoint(*context, *request, *response);
  }
  if (request->has_reuse_prefix()) {
    return CreateFromPrefix(*context, *request, *response);
  }
  const auto record = std::make_shared<CallRecord>(
      "steadystate.v1.SessionService/CreateSession", *context, services_);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  absl::StatusOr<SessionOptions> options =
      services_.converter.ToSessionOptions(*request);
  if (!options.ok()) {
    reactor->Finish(record->End(options.status()));
    return reactor;
  }
  // gRPC keeps the call, and what it lends, until Finish.
  services_.engine.CreateSession(
      *options, [this, record, reactor,
                 response](const absl::StatusOr<SessionInfo>& created) {
        if (created.ok()) SetSession(*created, *response);
        reactor->Finish(record->End(created.status()));
      });
  return reactor;
}

grpc::ServerUnaryReactor* SessionService::GetSession(
    grpc::CallbackServerContext* context, const v1::GetSessionRequest* request,
    v1::Session* response) {
  if (request->state_norms())
    return GetWithNorms(*context, *request, *response);
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

grpc::ServerUnaryReactor* SessionService::GetWithNorms(
    grpc::CallbackServerContext& context, const v1::GetSessionRequest& request,
    v1::Session& response) {
  const auto norms = std::make_shared<Engine::Norms>();
  const auto work = [&]() -> absl::StatusOr<WorkRequest> {
    STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                                 ParseSessionName("name", request.name()));
    const size_t most = MostNormsBytes();
    if (most > services_.max_message_bytes) {
      return MessageTooLarge(most, services_.max_message_bytes);
    }
    WorkRequest asked = services_.engine.NormsWork(norms);
    asked.session = std::string(id);
    asked.bytes = most;
    return asked;
  };
  return WorkCall::Start("steadystate.v1.SessionService/GetSession", services_,
                         context, work(), [this, norms, &response] {
                           SetSession(norms->session, response);
                           for (const SlotNorm& norm : norms->slots) {
                             ToProto(norm, *response.add_state_norms());
                           }
                           // The request itself is none of what it is doing.
                           v1::Session now;
                           Show(norms->session.id, now);
                           if (now.state() != v1::Session::STATE_UNSPECIFIED) {
                             response.set_state(now.state());
                           }
                         });
}

// At least what a session with its norms takes.
size_t SessionService::MostNormsBytes() const {
  constexpr size_t kSessionBytes = size_t{16} << 10;  // labels at their bounds
  constexpr size_t kNormBytes = 64;                   // beside the name
  size_t bytes = kSessionBytes;
  for (const StateSlot& slot :
       services_.engine.model().state_layout().slots()) {
    bytes += kNormBytes + slot.name.size();
  }
  return bytes;
}

grpc::ServerUnaryReactor* SessionService::ListSessions(
    grpc::CallbackServerContext* context,
    const v1::ListSessionsRequest* request,
    v1::ListSessionsResponse* response) {
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.SessionService/ListSessions",
      CostOfPage(request->page_size()), *response,
      [this, request, response]() -> absl::Status {
        STEADYSTATE_ASSIGN_OR_RETURN(const SessionQuery query,
                                     ToQuery(*request));
        return FillPage(services_, query, *request,
                        *response->mutable_sessions(), *response,
                        [this](const SessionInfo& info, v1::Session& to) {
                          SetSession(info, to);
                        });
      });
}

grpc::ServerUnaryReactor* SessionService::ForkSession(
    grpc::CallbackServerContext* context, const v1::ForkSessionRequest* request,
    v1::ForkSessionResponse* response) {
  const auto forks = std::make_shared<Forks>();
  return WorkCall::Start("steadystate.v1.SessionService/ForkSession", services_,
                         *context, ForkWork(*request, forks),
                         [forks, response] {
                           for (const std::string& id : forks->ids) {
                             response->add_sessions(SessionName(id));
                           }
                           response->set_position(forks->position);
                         });
}

grpc::ServerUnaryReactor* SessionService::UpdateSession(
    grpc::CallbackServerContext* context,
    const v1::UpdateSessionRequest* request, v1::Session* response) {
  const auto updated = std::make_shared<SessionInfo>();
  return WorkCall::Start(
      "steadystate.v1.SessionService/UpdateSession", services_, *context,
      UpdateWork(*request, updated),
      [this, updated, response] { SetSession(*updated, *response); });
}

grpc::ServerUnaryReactor* SessionService::RewindSession(
    grpc::CallbackServerContext* context,
    const v1::RewindSessionRequest* request, v1::Session* response) {
  const auto rewound = std::make_shared<SessionInfo>();
  return WorkCall::Start(
      "steadystate.v1.SessionService/RewindSession", services_, *context,
      RewindWork(*request, rewound),
      [this, rewound, response] { SetSession(*rewound, *response); });
}

grpc::ServerUnaryReactor* SessionService::CreateFromCheckpoint(
    grpc::CallbackServerContext& context,
    const v1::CreateSessionRequest& request, v1::Session& response) {
  const auto forks = std::make_shared<Forks>();
  const auto work = [&]() -> absl::StatusOr<WorkRequest> {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::string checkpoint,
        ParseCheckpointName("from_checkpoint", request.from_checkpoint()));
    if (request.has_reuse_prefix()) {
      return OutOfBounds("reuse_prefix", "there",
                         "absent where from_checkpoint is given");
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const SessionOptions options,
                                 services_.converter.ToSessionOptions(request));
    WorkRequest fork = services_.engine.ForkWork(ToForkOptions(options), forks);
    fork.session = checkpoint;
    return fork;
  };
  return WorkCall::Start(
      "steadystate.v1.SessionService/CreateSession", services_, context, work(),
      [this, forks, &response] { Show(forks->ids.front(), response); });
}

grpc::ServerUnaryReactor* SessionService::CreateFromPrefix(
    grpc::CallbackServerContext& context,
    const v1::CreateSessionRequest& request, v1::Session& response) {
  const auto created = std::make_shared<SessionInfo>();
  const auto work = [&]() -> absl::StatusOr<WorkRequest> {
    STEADYSTATE_ASSIGN_OR_RETURN(SessionOptions options,
                                 services_.converter.ToSessionOptions(request));
    const auto& prompt = request.reuse_prefix().ids();
    return services_.engine.CreateWork({prompt.begin(), prompt.end()},
                                       std::move(options), created);
  };
  return WorkCall::Start(
      "steadystate.v1.SessionService/CreateSession", services_, context, work(),
      [this, created, &response] { SetSession(*created, response); });
}

grpc::ServerUnaryReactor* SessionService::CreateCheckpoint(
    grpc::CallbackServerContext* context,
    const v1::CreateCheckpointRequest* request, v1::Checkpoint* response) {
  const auto forks = std::make_shared<Forks>();
  const auto work = [&]() -> absl::StatusOr<WorkRequest> {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const absl::string_view id,
        ParseSessionName("session", request->session()));
    STEADYSTATE_ASSIGN_OR_RETURN(ForkOptions options, ToForkOptions(*request));
    WorkRequest fork = services_.engine.ForkWork(std::move(options), forks);
    fork.session = std::string(id);
    if (request->has_expected_position()) {
      fork.expected_position = request->expected_position();
    }
    return fork;
  };
  return WorkCall::Start(
      "steadystate.v1.SessionService/CreateCheckpoint", services_, *context,
      work(), [this, forks, response] { Show(forks->ids.front(), *response); });
}

grpc::ServerUnaryReactor* SessionService::ListCheckpoints(
    grpc::CallbackServerContext* context,
    const v1::ListCheckpointsRequest* request,
    v1::ListCheckpointsResponse* response) {
  return AnswerLongUnary(
      services_, *context, "steadystate.v1.SessionService/ListCheckpoints",
      CostOfPage(request->page_size()), *response, [this, request, response] {
        return FillPage(services_, {.what = Listed::kCheckpoints}, *request,
                        *response->mutable_checkpoints(), *response,
                        [](const SessionInfo& info, v1::Checkpoint& to) {
                          ToProto(info, to);
                        });
      });
}

absl::StatusOr<WorkRequest> SessionService::ForkWork(
    const v1::ForkSessionRequest& request,
    const std::shared_ptr<Forks>& forks) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("name", request.name()));
  STEADYSTATE_ASSIGN_OR_RETURN(ForkOptions options,
                               services_.converter.ToForkOptions(request));
  WorkRequest work = services_.engine.ForkWork(std::move(options), forks);
  work.session = std::string(id);
  if (request.has_expected_position()) {
    work.expected_position = request.expected_position();
  }
  return work;
}

absl::StatusOr<WorkRequest> SessionService::UpdateWork(
    const v1::UpdateSessionRequest& request,
    const std::shared_ptr<SessionInfo>& updated) const {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const absl::string_view id,
      ParseSessionName("session.name", request.session().name()));
  STEADYSTATE_ASSIGN_OR_RETURN(
      SessionChanges changes,
      ToChanges(request, services_.engine.options().session_ttl));
  WorkRequest update = services_.engine.UpdateWork(std::move(changes), updated);
  update.session = std::string(id);
  return update;
}

absl::StatusOr<WorkRequest> SessionService::RewindWork(
    const v1::RewindSessionRequest& request,
    const std::shared_ptr<SessionInfo>& rewound) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("name", request.name()));
  STEADYSTATE_ASSIGN_OR_RETURN(const PastPoint to, ToPastPoint(request));
  WorkRequest work = services_.engine.RewindWork(to, rewound);
  work.session = std::string(id);
  if (request.has_expected_position()) {
    work.expected_position = request.expected_position();
  }
  return work;
}

grpc::ServerWriteReactor<v1::ExportSessionResponse>*
SessionService::ExportSession(grpc::CallbackServerContext* context,
                              const v1::ExportSessionRequest* request) {
  return ExportCall::Start(services_, *context, *request);
}

grpc::ServerReadReactor<grpc::ByteBuffer>* SessionService::ImportSession(
    grpc::CallbackServerContext* context, v1::Session* response) {
  return ImportCall::Start(services_, *context, *response);
}

grpc::ServerUnaryReactor* SessionService::HibernateSession(
    grpc::CallbackServerContext* context,
    const v1::HibernateSessionRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerWhenDone(services_, *context,
                        "steadystate.v1.SessionService/HibernateSession",
                        ParseSessionName("name", request->name()),
                        [this](absl::string_view id, const Done& done) {
                          return services_.engine.HibernateSession(id, done);
                        });
}

grpc::ServerUnaryReactor* SessionService::DeleteSession(
    grpc::CallbackServerContext* context,
    const v1::DeleteSessionRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerWhenDone(services_, *context,
                        "steadystate.v1.SessionService/DeleteSession",
                        ParseSessionName("name", request->name()),
                        [this](absl::string_view id, const Done& done) {
                          return services_.engine.DeleteSession(id, done);
                        });
}

grpc::ServerWriteReactor<v1::WatchSessionsResponse>*
SessionService::WatchSessions(grpc::CallbackServerContext* context,
                              const v1::WatchSessionsRequest* request) {
  return WatchCall::Start(services_, *context, *request);
}

grpc::ServerUnaryReactor* SessionService::DeleteCheckpoint(
    grpc::CallbackServerContext* context,
    const v1::DeleteCheckpointRequest* request,
    google::protobuf::Empty* /*response*/) {
  return AnswerWhenDone(services_, *context,
                        "steadystate.v1.SessionService/DeleteCheckpoint",
                        ParseCheckpointName("name", request->name()),
                        [this](absl::string_view id, const Done& done) {
                          return services_.engine.DeleteSession(id, done);
                        });
}

// It may have been deleted again by now: then its name is all that is known.
void SessionService::Show(const std::string& id, v1::Session& to) const {
  const auto info = services_.engine.GetSession(id);
  if (info.ok()) SetSession(*info, to);
  to.set_name(SessionName(id));
}

void SessionService::Show(const std::string& id, v1::Checkpoint& to) const {
  SessionInfo named;
  named.id = id;
  ToProto(services_.engine.GetSession(id).value_or(named), to);
}

void SessionService::SetSession(const SessionInfo& info,
                                v1::Session& to) const {
  ToProto(info, services_.engine.model().description().id, to);
}

}  // namespace steadystate
