// Of SessionKeeper: sessions that are created, and what they are charged.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/session/log_entry.h"
#include "server/session/session_id.h"
#include "server/session/session_keeper.h"

namespace steadystate {

absl::StatusOr<SessionInfo> SessionKeeper::Create(const SessionOptions& options,
                                                  Created* created) {
  const Moment now = clock_.Read();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const uint64_t cap,
      shelf_.CapOf(options.context_cap, layout_.context_cap()));
  const uint64_t charge = shelf_.ChargeOf(shelf_.listed_tier(), cap);
  while (shelf_.MoreExpiryMayMakeRoom(charge, now)) {
  }
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session,
                               CreateNow(options, now, created));
  return shelf_.table.Describe(*session, now);
}

absl::StatusOr<Session*> SessionKeeper::CreateNow(const SessionOptions& options,
                                                  const Moment& now,
                                                  Created* created) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Durability durability,
      DurabilityOf(options.durability, default_durability_));
  shelf_.EndIfExpired({options.id, options.owner}, now);
  STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckNew(options));
  if (IsLogged(durability)) {
    STEADYSTATE_RETURN_IF_ERROR(shelf_.journal->Health());
  }
  const Tier tier = shelf_.listed_tier();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const uint64_t cap,
      shelf_.CapOf(options.context_cap, layout_.context_cap()));
  STEADYSTATE_ASSIGN_OR_RETURN(Shelf::ChargedSlot charged,
                               shelf_.ChargeOne(tier, cap, now));
  Session& session = shelf_.table.Add(options, now);
  session.state.set_context_cap(cap);
  Shelf::NoteCharge(session, tier, charged.bytes);
  session.durability = durability;
  session.state.SetSlot(std::move(charged.lease));
  metrics_.SessionCreated();
  shelf_.Note(SessionEventKind::kCreated, session, now.wall);
  UpdateGauges();
  if (IsLogged(durability)) {
    LogCreated(session, shelf_.table.Describe(session, now), created);
  }
  return &session;
}

// Lets `created` be called when the log has it.
void SessionKeeper::LogCreated(Session& session, const SessionInfo& info,
                               Created* created) {
  std::string content;
  LogEntryWriter(content, archive_->numerics_tag())
      .Created(session.card(), static_cast<uint8_t>(session.durability));
  Journal::Written written =
      [this, info, owner = session.owner, uid = session.uid,
       told = created == nullptr ? nullptr : std::exchange(*created, nullptr)](
          absl::Status status) {
        if (!status.ok()) {
          const MutexLock lock(shelf_.mutex);
          Session* const failed = shelf_.table.FindAny({info.id, owner});
          if (failed != nullptr && failed->uid == uid) Undo(*failed);
        }
        if (!told) return;
        if (status.ok()) {
          told(info);
        } else {
          told(std::move(status));
        }
      };
  shelf_.log.Note(
      session,
      shelf_.journal->Add(std::move(content), SyncOf(session.durability),
                          std::move(written)),
      absl::ZeroDuration());
  session.noted_use = session.last_step.steady;
}

absl::StatusOr<Session*> SessionKeeper::CreateUnlisted(
    const Moment& now, std::optional<uint64_t> cap) {
  shelf_.EndExpired(now);
  const uint64_t most = shelf_.MostContextCap();
  const uint64_t given = !cap.has_value() || most == 0
                             ? layout_.context_cap()
                             : std::clamp<uint64_t>(*cap, 1, most);
  STEADYSTATE_ASSIGN_OR_RETURN(Shelf::ChargedSlot charged,
                               shelf_.ChargeOne(Tier::kMemory, given, now));
  Session& session = shelf_.KeepUnlisted(std::make_unique<Session>(layout_));
  session.state.set_context_cap(given);
  Shelf::NoteCharge(session, Tier::kMemory, charged.bytes);
  session.state.SetSlot(std::move(charged.lease));
  return &session;
}

absl::StatusOr<Session*> SessionKeeper::FindEphemeral(const SessionKey& key,
                                                      uint64_t stream,
                                                      const Moment& now) {
  shelf_.EndExpired(now);
  shelf_.EndIfExpired(key, now);
  Session* const session = shelf_.table.FindAny(key);
  if (session != nullptr && session->stream == stream) return session;
  STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckFree(key));
  return nullptr;
}

absl::StatusOr<Session*> SessionKeeper::CreateEphemeral(const SessionKey& key,
                                                        uint64_t stream,
                                                        const Moment& now) {
  const uint64_t bytes = shelf_.ChargeOf(Tier::kMemory, layout_.context_cap());
  if (shelf_.stores && !shelf_.LeavesRoom(bytes)) {
    return shelf_.Refused(Tier::kMemory, bytes, now);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      Shelf::ChargedSlot charged,
      shelf_.ChargeOne(Tier::kMemory, layout_.context_cap(), now));
  auto created = std::make_unique<Session>(layout_);
  created->stream = stream;
  SessionOptions options;
  options.owner = std::string(key.owner);
  options.id = std::string(key.id);
  options.ttl = absl::InfiniteDuration();
  Session& session =
      shelf_.table.Add(std::move(created), std::move(options), now);
  Shelf::NoteCharge(session, Tier::kMemory, charged.bytes);
  session.state.SetSlot(std::move(charged.lease));
  metrics_.SessionCreated();
  shelf_.Note(SessionEventKind::kCreated, session, now.wall);
  UpdateGauges();
  return &session;
}

}  // namespace steadystate
