// Of answer.h: sessions, what happens to them, checkpoints, and times.
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/answer.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

void SetTime(absl::Time time, google::protobuf::Timestamp& to) {
  absl::Duration rest = time - absl::UnixEpoch();
  int64_t seconds = absl::IDivDuration(rest, absl::Seconds(1), &rest);
  // A Timestamp's nanos are never negative.
  if (rest < absl::ZeroDuration()) {
    --seconds;
    rest += absl::Seconds(1);
  }
  to.set_seconds(seconds);
  to.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
}

}  // namespace

void ToProto(absl::Time requests_until, v1::GoingAway& to) {
  SetTime(requests_until, *to.mutable_requests_until());
}

void SetDuration(absl::Duration duration, google::protobuf::Duration& to) {
  constexpr int64_t kNanosPerSecond = 1'000'000'000;
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  to.set_seconds(nanos / kNanosPerSecond);
  to.set_nanos(static_cast<int32_t>(nanos % kNanosPerSecond));
}

v1::PrefixReuse ToProto(std::optional<PrefixReuse> reuse) {
  if (!reuse.has_value()) return v1::PREFIX_REUSE_UNSPECIFIED;
  return static_cast<v1::PrefixReuse>(static_cast<int>(*reuse) +
                                      v1::PREFIX_REUSED);
}

std::string SessionName(absl::string_view id) {
  return absl::StrCat("sessions/", id);
}

namespace {

v1::Session::State StateOf(const SessionInfo& info) {
  if (info.active) return v1::Session::ACTIVE;
  return info.tier == SessionTier::kStored ? v1::Session::HIBERNATED
                                           : v1::Session::IDLE;
}

v1::Session::Durability ToProto(Durability durability) {
  return static_cast<v1::Session::Durability>(static_cast<int>(durability) +
                                              v1::Session::NONE);
}

std::optional<ErrorReason> WhyUnusable(const SessionInfo& info) {
  switch (info.unusable) {
    case Unusable::kOtherNumerics:
      return ErrorReason::kNumericsMismatch;
    case Unusable::kSnapshotCorrupt:
      return ErrorReason::kSnapshotCorrupt;
    case Unusable::kNo:
      break;
  }
  if (info.not_finite) return ErrorReason::kStateNotFinite;
  return std::nullopt;
}

// "checkpoints/{id}" of a checkpoint's id as CheckpointId has it.
std::string CheckpointResource(absl::string_view id) {
  return absl::StrCat("checkpoints/", CheckpointName(id).value_or(id));
}

}  // namespace

void ToProto(const SessionInfo& info, absl::string_view model_id,
             v1::Session& to) {
  to.set_name(SessionName(info.id));
  to.set_model(absl::StrCat("models/", model_id));
  to.set_position(info.position);
  to.set_earliest_position(info.earliest_position);
  to.set_state_bytes(info.state_bytes);
  to.set_state(StateOf(info));
  SetTime(info.create_time, *to.mutable_create_time());
  SetTime(info.last_step_time, *to.mutable_last_step_time());
  if (info.ttl < absl::InfiniteDuration()) {
    SetTime(info.expire_time, *to.mutable_expire_time());
    SetDuration(info.ttl, *to.mutable_ttl());
  }
  to.mutable_labels()->insert(info.labels.begin(), info.labels.end());
  to.set_uid(info.uid);
  to.set_other_numerics(info.other_numerics);
  to.set_durability(ToProto(info.durability));
  to.set_state_not_finite(info.not_finite);
  to.set_ephemeral(info.ephemeral);
  to.set_context_cap(info.context_cap);
  if (const auto why = WhyUnusable(info))
    to.set_unusable(std::string(Name(*why)));
  if (info.prefix_reuse.has_value()) {
    to.set_prefix_reuse(ToProto(info.prefix_reuse));
  }
}

void ToProto(const SlotNorm& norm, v1::SlotNorm& to) {
  to.set_layer(static_cast<uint32_t>(norm.layer));
  to.set_name(norm.name);
  to.set_l2_norm(norm.l2_norm);
  to.set_max_abs(norm.max_abs);
  to.set_non_finite(norm.non_finite);
}

void ToProto(const SessionInfo& info, v1::Checkpoint& to) {
  to.set_name(CheckpointResource(info.id));
  to.set_position(info.position);
  to.set_state_bytes(info.state_bytes);
  SetTime(info.create_time, *to.mutable_create_time());
  to.mutable_labels()->insert(info.labels.begin(), info.labels.end());
  to.set_uid(info.uid);
  to.set_other_numerics(info.other_numerics);
  to.set_durability(ToProto(info.durability));
}

void ToProto(const SessionEvent& event, v1::SessionEvent& to) {
  to.set_kind(static_cast<v1::SessionEvent::Kind>(static_cast<int>(event.kind) +
                                                  v1::SessionEvent::CREATED));
  to.set_session(SessionName(event.id));
  to.set_uid(ToString(event.uid));
  to.set_position(event.position);
  SetTime(event.time, *to.mutable_time());
  if (event.parent.empty()) return;
  to.set_parent(CheckpointName(event.parent).has_value()
                    ? CheckpointResource(event.parent)
                    : SessionName(event.parent));
}

}  // namespace steadystate
