// Of convert.h: names of sessions and checkpoints, and what becomes of them.
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// The id in "{collection}/{id}".
absl::StatusOr<absl::string_view> ParseName(absl::string_view collection,
                                            absl::string_view field,
                                            absl::string_view name) {
  const std::string form =
      absl::StrCat("\"", collection, "/{id}\", the id 1 to 63 of [a-z0-9-]");
  if (name.empty()) return MissingField(field, form);
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, collection) || !absl::ConsumePrefix(&id, "/") ||
      !IsSessionId(id)) {
    return OutOfBounds(field, name, form);
  }
  return id;
}

}  // namespace

absl::StatusOr<absl::string_view> ParseSessionName(absl::string_view field,
                                                   absl::string_view name) {
  return ParseName("sessions", field, name);
}

absl::StatusOr<std::string> ParseCheckpointName(absl::string_view field,
                                                absl::string_view name) {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseName("checkpoints", field, name));
  return CheckpointId(id);
}

absl::StatusOr<ForkOptions> ToForkOptions(
    const v1::CreateCheckpointRequest& request) {
  ForkOptions options;
  options.checkpoints = true;
  const std::string& id = request.checkpoint_id();
  if (!id.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionId(id, "checkpoint_id"));
  }
  options.ids = {CheckpointId(id.empty() ? NewSessionId() : id)};
  STEADYSTATE_RETURN_IF_ERROR(
      ValidateLabelCount(request.checkpoint().labels().size()));
  options.labels.insert(request.checkpoint().labels().begin(),
                        request.checkpoint().labels().end());
  return options;
}

ForkOptions ToForkOptions(const SessionOptions& options) {
  ForkOptions fork;
  if (!options.id.empty()) fork.ids = {options.id};
  fork.ttl = options.ttl;
  fork.labels = options.labels;
  fork.durability = options.durability;
  fork.context_cap = options.context_cap;
  return fork;
}

absl::StatusOr<SessionQuery> ToQuery(const v1::ListSessionsRequest& request) {
  SessionQuery query;
  if (request.match().size() > kMaxPatternBytes) {
    return OutOfBounds(
        "match", absl::StrCat(request.match().size(), " bytes long"),
        absl::StrCat("at most ", kMaxPatternBytes, " bytes long"));
  }
  query.pattern = request.match();
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabelCount(request.labels().size()));
  query.labels.insert(request.labels().begin(), request.labels().end());
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabels(query.labels));
  return query;
}

absl::StatusOr<SessionChanges> ToChanges(
    const v1::UpdateSessionRequest& request, absl::Duration default_ttl) {
  const v1::Session& from = request.session();
  SessionChanges changes;
  if (request.update_mask().paths().empty()) {
    return MissingField("update_mask",
                        "the fields to change: context_cap, ttl, labels");
  }
  for (const std::string& path : request.update_mask().paths()) {
    if (path == "context_cap") {
      changes.context_cap = from.context_cap();
    } else if (path == "ttl") {
      changes.ttl = default_ttl;
      if (from.has_ttl()) {
        STEADYSTATE_ASSIGN_OR_RETURN(changes.ttl, ParseTtl(from.ttl()));
      }
    } else if (path == "labels") {
      STEADYSTATE_RETURN_IF_ERROR(
          Within("session", ValidateLabelCount(from.labels().size())));
      changes.labels.emplace(from.labels().begin(), from.labels().end());
    } else {
      return OutOfBounds("update_mask.paths", path,
                         "context_cap, ttl or labels");
    }
  }
  return changes;
}

absl::StatusOr<PastPoint> ToPastPoint(const v1::RewindSessionRequest& request) {
  switch (request.to_case()) {
    case v1::RewindSessionRequest::kPosition:
      return PastPoint{.position = request.position()};
    case v1::RewindSessionRequest::kTokensBack:
      if (!request.has_expected_position()) {
        return OutOfBounds("expected_position", "absent",
                           "the session's position, with tokens_back");
      }
      return PastPoint{.inputs_back = request.tokens_back()};
    case v1::RewindSessionRequest::kCheckpoint: {
      PastPoint to;
      STEADYSTATE_ASSIGN_OR_RETURN(
          to.checkpoint,
          ParseCheckpointName("checkpoint", request.checkpoint()));
      return to;
    }
    case v1::RewindSessionRequest::TO_NOT_SET:
      break;
  }
  return OutOfBounds("to", "absent", "position, tokens_back or checkpoint");
}

}  // namespace steadystate
