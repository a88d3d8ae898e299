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
namespace {

// State memory becomes free when a session expires or is deleted: when the next
// one expires is the best guess, within these bounds.
constexpr absl::Duration kMinStateRetry = absl::Seconds(1);
constexpr absl::Duration kMaxStateRetry = absl::Seconds(60);

// The charges decide, not the free slots: some of these are for sessions that
// have been charged and have not asked for theirs. An empty lease if the slot
// comes later.
absl::StatusOr<StateLease> LeaseIfFree(StatePool& pool, uint64_t bytes) {
  // Room that there is by the charges is being cleared, or will be.
  if (!pool.HasRoom(bytes)) return StateLease();
  return pool.Allocate(bytes);
}

}  // namespace

absl::StatusOr<SessionInfo> SessionKeeper::Create(const SessionOptions& options,
                                                  Created* created) {
  const Moment now = clock_.Read();
  const uint64_t charge =
      shelf_.ChargeOf(shelf_.listed_tier(), layout_.context_cap());
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
  STEADYSTATE_ASSIGN_OR_RETURN(ChargedSlot charged,
                               ChargeOne(tier, layout_.context_cap(), now));
  Session& session = shelf_.table.Add(options, now);
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

absl::StatusOr<Session*> SessionKeeper::CreateUnlisted(const Moment& now) {
  shelf_.EndExpired(now);
  STEADYSTATE_ASSIGN_OR_RETURN(
      ChargedSlot charged,
      ChargeOne(Tier::kMemory, layout_.context_cap(), now));
  Session& session = shelf_.KeepUnlisted(std::make_unique<Session>(layout_));
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
    return Refused(Tier::kMemory, bytes, now);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      ChargedSlot charged,
      ChargeOne(Tier::kMemory, layout_.context_cap(), now));
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

absl::Status SessionKeeper::Charge(Tier tier, uint64_t each, size_t sessions,
                                   const Moment& now) {
  while (each * sessions > shelf_.charges.left(tier)) {
    if (tier != shelf_.listed_tier() || !shelf_.EndOldestPrefix()) {
      return Refused(tier, each, now);
    }
  }
  shelf_.charges.Take(tier, each * sessions);
  return absl::OkStatus();
}

absl::StatusOr<SessionKeeper::ChargedSlot> SessionKeeper::ChargeOne(
    Tier tier, uint64_t context_cap, const Moment& now) {
  ChargedSlot charged = {.bytes = shelf_.ChargeOf(tier, context_cap)};
  STEADYSTATE_RETURN_IF_ERROR(Charge(tier, charged.bytes, 1, now));
  if (tier == Tier::kStore) return charged;
  absl::StatusOr<StateLease> lease =
      LeaseIfFree(pool_, layout_.lease_bytes(context_cap));
  if (!lease.ok()) {
    shelf_.charges.GiveBack(tier, charged.bytes);
    return lease.status();
  }
  charged.lease = *std::move(lease);
  return charged;
}

absl::Status SessionKeeper::Refused(Tier tier, uint64_t bytes,
                                    const Moment& now) const {
  const absl::Duration retry = std::clamp(
      shelf_.table.NextExpiry() - now.steady, kMinStateRetry, kMaxStateRetry);
  if (tier == Tier::kStore) {
    return MakeError(
        ErrorReason::kStateBudgetExhausted,
        absl::StrCat("sessions take all ", FormatByteSize(store_bytes_),
                     " that they may take in the store; one is counted as ",
                     FormatByteSize(bytes),
                     ": delete sessions or raise --store_budget"),
        {{"budget_bytes", absl::StrCat(store_bytes_)},
         {"session_bytes", absl::StrCat(bytes)}},
        retry);
  }
  const absl::Status exhausted = pool_.Exhausted(bytes);
  const std::optional<ErrorDetails> details = GetErrorDetails(exhausted);
  return MakeError(details->reason, exhausted.message(), details->metadata,
                   retry);
}

}  // namespace steadystate
