// Of SessionKeeper: sessions that are made of other ones, forks and imports.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/session_id.h"
#include "server/session/session_keeper.h"

namespace steadystate {
namespace {

// Of `count` more.
absl::Status CheckCheckpoints(const Shelf& shelf, size_t count)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf.mutex) {
  const size_t most = shelf.max_checkpoints;
  if (shelf.table.count(SessionKind::kCheckpoint).all + count <= most) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kCheckpointLimitReached,
      absl::StrCat("there are as many checkpoints as there may be, ", most,
                   ": delete some or raise --max_checkpoints"),
      {{"bounds", absl::StrCat(most)}});
}

absl::Status CheckFree(Shelf& shelf, absl::string_view owner,
                       absl::Span<const std::string> ids, const Moment& now)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf.mutex) {
  for (const std::string& id : ids) {
    shelf.EndIfExpired({id, owner}, now);
    STEADYSTATE_RETURN_IF_ERROR(shelf.table.CheckFree({id, owner}));
  }
  return absl::OkStatus();
}

absl::Status ValidateForks(const ForkOptions& options) {
  if (options.ttl.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(*options.ttl));
  }
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabels(options.labels));
  return options.checkpoints ? absl::OkStatus()
                             : ValidateSessionIds(options.ids);
}

}  // namespace

absl::StatusOr<Forks> SessionKeeper::Fork(Session& parent,
                                          const ForkOptions& options,
                                          uint64_t position,
                                          absl::string_view text) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateForks(options));
  Forks forks = {.ids = options.ids, .position = position};
  while (forks.ids.size() < options.count) forks.ids.push_back(NewSessionId());
  const Moment now = clock_.Read();
  while (shelf_.MoreExpiryMayMakeRoom(forks.ids.size(), now)) {
  }
  SessionOptions each;
  each.ttl = options.ttl;
  each.labels = options.labels;
  if (options.checkpoints) each.ttl = absl::InfiniteDuration();
  // What is made of a checkpoint is a new session, whatever that was made of.
  STEADYSTATE_ASSIGN_OR_RETURN(
      Durability durability,
      DurabilityOf(options.durability, CheckpointName(parent.id).has_value()
                                           ? default_durability_
                                           : parent.durability));
  // A checkpoint stays until it is deleted.
  if (options.checkpoints && archive_ != nullptr) {
    durability = std::max(durability, Durability::kShutdown);
  }
  each.durability = durability;
  // Counted before anything is copied, so that there will be a slot.
  STEADYSTATE_RETURN_IF_ERROR(
      ReserveForks(parent, forks.ids.size(), options.ids, now, each));
  MayPark("SessionKeeper::Fork");
  const std::optional<PrefixDigest> prefix =
      options.checkpoints && !parent.other_numerics
          ? PrefixAt(prefixes().OriginOf(parent.owner), parent.state, position)
          : std::nullopt;
  WayBack way;
  absl::StatusOr<std::shared_ptr<SessionState>> origin =
      OriginAt(parent, position, text, way);
  std::vector<SessionOptions> children(forks.ids.size(), each);
  for (size_t i = 0; i < children.size(); ++i) children[i].id = forks.ids[i];
  std::vector<Session*> added;
  {
    const MutexLock lock(shelf_.mutex);
    // Others may have taken an id meanwhile.
    const absl::Status fits =
        origin.ok() ? CheckFree(shelf_, each.owner, forks.ids, now)
                    : origin.status();
    if (!fits.ok()) {
      shelf_.charges.GiveBack(shelf_.listed_tier(), children.size());
      return fits;
    }
    for (SessionOptions& child : children) {
      added.push_back(&AddFork(parent, std::move(child), *origin, way, now));
      if (prefix.has_value()) shelf_.table.SetPrefix(*added.back(), *prefix);
    }
    UpdateGauges();
  }
  // Its last holder may take it over.
  origin->reset();
  STEADYSTATE_RETURN_IF_ERROR(SaveNew(added, way));
  return forks;
}

// What the parent was at `position`, or before that, and then `way` leads
// there.
absl::StatusOr<std::shared_ptr<SessionState>> SessionKeeper::OriginAt(
    Session& parent, uint64_t position, absl::string_view text, WayBack& way) {
  if (position == parent.state.position()) return thread_.CopyOf(parent.state);
  STEADYSTATE_ASSIGN_OR_RETURN(way,
                               thread_.past().Find(parent, position, text));
  return thread_.CopyOf(way);
}

// What the log goes on from; and what has to absorb something, which the store
// has then. REQUIRES: they are moving.
absl::Status SessionKeeper::SaveNew(absl::Span<Session* const> sessions,
                                    const WayBack& way) {
  absl::Status status;
  bool logged = false;
  for (Session* const session : sessions) {
    if (!status.ok()) break;
    logged = logged || IsLogged(session->durability);
    if (session->tail != nullptr) {
      status = thread_.past().Store(*session, way);
    } else if (IsLogged(session->durability)) {
      status = thread_.Save(*session);
    }
  }
  // The log goes on from there.
  if (status.ok() && logged) status = archive_->Sync();
  const MutexLock lock(shelf_.mutex);
  for (Session* const session : sessions) {
    session->moving = false;
    if (!status.ok()) Undo(*session);
  }
  UpdateGauges();
  return status;
}

// Of a session that nobody has been told of: it ends. Should somebody have
// guessed its name and use it, it is good when it has been saved.
void SessionKeeper::Undo(Session& session) {
  // It may have been deleted, or have expired.
  if (shelf_.table.FindAny(session.key()) != &session) return;
  if (session.active) {
    session.log.broken = true;
    return;
  }
  shelf_.Note(SessionEventKind::kDeleted, session, clock_.WallNow());
  if (session.state.stored()) --shelf_.HibernatedLike(session);
  Shelf::Removed nobody_asks;
  shelf_.RemoveStored(session, nobody_asks);
  shelf_.End(shelf_.table.Remove(session));
}

absl::StatusOr<SessionInfo> SessionKeeper::Rewind(Session& session,
                                                  const FindWay& find) {
  SessionPast& past = thread_.past();
  STEADYSTATE_ASSIGN_OR_RETURN(const WayBack way, find(past));
  STEADYSTATE_RETURN_IF_ERROR(past.Rewind(session, way));
  const Moment now = clock_.Read();
  metrics_.Rewound();
  const MutexLock lock(shelf_.mutex);
  shelf_.CountUnstored(session);
  return shelf_.table.Describe(session, now);
}

absl::Status SessionKeeper::ReserveForks(const Session& parent, size_t count,
                                         absl::Span<const std::string> ids,
                                         const Moment& now,
                                         SessionOptions& each) {
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(CheckFree(shelf_, parent.owner, ids, now));
  if (each.ttl == absl::InfiniteDuration()) {
    STEADYSTATE_RETURN_IF_ERROR(CheckCheckpoints(shelf_, count));
  }
  STEADYSTATE_RETURN_IF_ERROR(Charge(shelf_.listed_tier(), count, now));
  each.owner = parent.owner;
  // A checkpoint's own are not for what is made of it, nor a session's for a
  // checkpoint.
  if (CheckpointName(parent.id).has_value() ||
      each.ttl == absl::InfiniteDuration()) {
    return absl::OkStatus();
  }
  if (!each.ttl.has_value()) each.ttl = parent.ttl;
  if (each.labels.empty()) each.labels = parent.labels;
  return absl::OkStatus();
}

Session& SessionKeeper::AddFork(const Session& parent, SessionOptions options,
                                std::shared_ptr<SessionState> origin,
                                const WayBack& way, const Moment& now) {
  const Durability durability = *options.durability;
  Session& fork = shelf_.table.Add(std::move(options), now);
  fork.charged = shelf_.listed_tier();
  fork.other_numerics = parent.other_numerics;
  if (origin != nullptr) fork.state.Follow(std::move(origin));
  if (way.pieces != nullptr) {
    fork.tail = std::make_unique<LogTail>(way.pieces, way.end);
  }
  if (shelf_.stores) shelf_.table.WatchIdle(fork);
  shelf_.slot_may_come = true;
  fork.position = fork.tail == nullptr ? fork.state.position() : way.end;
  // What it stands for a copy of may have it longer than the parent has.
  fork.repeatable_from =
      fork.state.position() == 0 ? 0 : parent.repeatable_from;
  fork.recorded = parent.recorded;
  fork.durability = durability;
  fork.moving = IsLogged(fork.durability) || fork.tail != nullptr;
  shelf_.CountUnstored(fork);
  if (KindOfId(fork.id) == SessionKind::kSession) {
    metrics_.SessionCreated();
    metrics_.Forked();
  }
  // A checkpoint's is a new session.
  shelf_.Note(CheckpointName(parent.id).has_value() ? SessionEventKind::kCreated
                                                    : SessionEventKind::kForked,
              fork, now.wall, parent.id);
  return fork;
}

absl::StatusOr<SessionInfo> SessionKeeper::Enlist(Session& session,
                                                  const SessionOptions& options,
                                                  SessionEventKind how) {
  const Moment now = clock_.Read();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Durability durability,
      DurabilityOf(options.durability, default_durability_));
  SessionInfo info;
  {
    const MutexLock lock(shelf_.mutex);
    shelf_.EndIfExpired({options.id, options.owner}, now);
    STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckNew(options));
    const Tier tier = shelf_.listed_tier();
    if (tier != session.charged) {
      STEADYSTATE_RETURN_IF_ERROR(Charge(tier, 1, now));
      shelf_.charges.GiveBack(session.charged, 1);
      session.charged = tier;
    }
    session.position = session.state.position();
    session.repeatable_from = session.state.repeatable_from();
    session.NoteRecords();
    shelf_.table.Add(shelf_.TakeUnlisted(session), options, now);
    shelf_.table.SetActive(session);
    metrics_.SessionCreated();
    shelf_.Note(how, session, now.wall);
    UpdateGauges();
    session.durability = durability;
    // From now on it can be deleted, and what is about to be written with it.
    session.moving = IsLogged(durability);
    shelf_.CountUnstored(session);
    info = shelf_.table.Describe(session, now);
  }
  if (!IsLogged(durability)) return info;
  MayPark("SessionKeeper::Enlist");
  absl::Status saved = thread_.Save(session);
  if (saved.ok()) saved = archive_->Sync();
  const MutexLock lock(shelf_.mutex);
  session.moving = false;
  // What is written down has been looked at.
  info.not_finite = session.health == Health::kNotFinite;
  if (saved.ok()) return info;
  // Nobody has been told of it: it ends when it is let go of.
  if (session.unlisted.has_value()) return saved;
  shelf_.Note(SessionEventKind::kDeleted, session, clock_.WallNow());
  Shelf::Removed nobody_asks;
  shelf_.RemoveStored(session, nobody_asks);
  shelf_.log.Forget(session);
  shelf_.KeepUnlisted(shelf_.table.Remove(session));
  UpdateGauges();
  return saved;
}

}  // namespace steadystate
