// Of SessionKeeper: sessions that are made of other ones, forks and imports.

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

// What of a fork's sessions is written down before others have their turn.
constexpr size_t kSavedAtOnce = 16;
constexpr uint64_t kSavedBytesAtOnce = uint64_t{1} << 20;

// Of `count` more.
absl::Status CheckCheckpoints(const Shelf& shelf, size_t count)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf.mutex) {
  const size_t most = shelf.max_checkpoints;
  if (shelf.table.count(SessionKind::kCheckpoint).all +
          shelf.table.claimed(SessionKind::kCheckpoint) + count <=
      most) {
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

// Are all slots in use?
bool IsExhausted(const absl::Status& status) {
  const std::optional<ErrorDetails> details = GetErrorDetails(status);
  return details.has_value() &&
         details->reason == ErrorReason::kStateBudgetExhausted;
}

// That of the parent, unless another one is asked for.
absl::StatusOr<uint64_t> CapOfFork(const Shelf& shelf,
                                   const ForkOptions& options,
                                   const Session& parent, uint64_t position) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const uint64_t cap,
      shelf.CapOf(options.context_cap, parent.state.context_cap()));
  STEADYSTATE_RETURN_IF_ERROR(shelf.CheckHolds(position));
  STEADYSTATE_RETURN_IF_ERROR(CheckCapReaches(cap, position));
  return cap;
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

// Sessions that are being made of another one. They are charged, and their
// names are taken. Of the keeper's thread; shared by the parts of its work.
class SessionKeeper::NewForks {
 public:
  NewForks(SessionKeeper& keeper, const Session& parent, const Moment& now)
      : keeper_(keeper), parent_(parent.id), now_(now) {}

  // Charges so much for each and claims their names; fills in what the parent
  // decides. OK or none.
  absl::Status Reserve(const Session& parent, absl::Span<const std::string> ids,
                       uint64_t charge, SessionOptions& each)
      ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  // They are what `way` leads to, of which the parent has what it lends until
  // SaveSome is done. `prefix`: that they stand for, SessionTable's.
  absl::Status GoThatWay(const Session& parent, WayBack way,
                         std::optional<PrefixDigest> prefix)
      ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  // What the log goes on from, and what has to absorb something, has to be in
  // the store before anybody finds it. Some at a time: others have work for the
  // thread, too. Nothing while there is more.
  std::optional<absl::Status> SaveSome()
      ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  // Nobody has been told of them.
  void Drop() ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);

 private:
  // They are what `origin` is, or what the way leads to from there.
  void Become(const Session& parent,
              const std::shared_ptr<SessionState>& origin)
      ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  // The same where memory has no slot for it: they are made in the store.
  void BecomeStored(const Session& parent)
      ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  void Describe(Session& fork, const Session& parent) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(keeper_.shelf_.mutex);
  absl::Status Save(Session& fork) ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);
  // Whoever looks for them finds them from now on.
  void Enlist() ABSL_LOCKS_EXCLUDED(keeper_.shelf_.mutex);

  SessionKeeper& keeper_;
  const std::string parent_;
  const Moment now_;  // when they were asked for
  std::vector<std::unique_ptr<Session>> sessions_;
  WayBack way_;  // to what they are
  std::optional<PrefixDigest> prefix_;
  bool in_store_ = false;  // BecomeStored
  size_t saved_ = 0;       // of them, or need not be
  bool logged_ = false;    // some of those are
};

absl::StatusOr<Forks> SessionKeeper::Fork(Session& parent,
                                          const ForkOptions& options,
                                          uint64_t position,
                                          absl::string_view text) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateForks(options));
  Forks forks = {.ids = options.ids, .position = position};
  while (forks.ids.size() < options.count) forks.ids.push_back(NewSessionId());
  const Moment now = clock_.Read();
  STEADYSTATE_ASSIGN_OR_RETURN(const uint64_t cap,
                               CapOfFork(shelf_, options, parent, position));
  const Tier tier = shelf_.listed_tier();
  const uint64_t charge = options.checkpoints
                              ? shelf_.ChargeOfKept(tier, cap, position)
                              : shelf_.ChargeOf(tier, cap);
  while (shelf_.MoreExpiryMayMakeRoom(charge * forks.ids.size(), now)) {
  }
  SessionOptions each;
  each.context_cap = options.context_cap;
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
  const auto made = std::make_shared<NewForks>(*this, parent, now);
  // Counted before anything is copied, so that there will be a slot.
  STEADYSTATE_RETURN_IF_ERROR(made->Reserve(parent, forks.ids, charge, each));
  MayPark("SessionKeeper::Fork");
  std::optional<PrefixDigest> prefix;
  if (options.checkpoints && !parent.other_numerics) {
    prefix =
        PrefixAt(prefixes().OriginOf(parent.owner), parent.state, position);
  }
  absl::StatusOr<WayBack> way = WayTo(parent, position, text);
  const absl::Status became =
      way.ok() ? made->GoThatWay(parent, *std::move(way), prefix)
               : way.status();
  if (!became.ok()) {
    made->Drop();
    return became;
  }
  thread_.GoOnWith([made] { return made->SaveSome(); });
  return forks;
}

// To what the parent was at `position`, which may be what it is.
absl::StatusOr<WayBack> SessionKeeper::WayTo(Session& parent, uint64_t position,
                                             absl::string_view text) {
  if (position != parent.state.position()) {
    return thread_.past().Find(parent, position, text);
  }
  const MutexLock lock(shelf_.mutex);
  return WayBack{.begin = position,
                 .end = position,
                 .kept = &parent.state,
                 .repeatable_from = parent.repeatable_from,
                 .other_numerics = parent.other_numerics};
}

std::optional<absl::Status> SessionKeeper::NewForks::SaveSome() {
  MayPark("SessionKeeper::SaveSome");
  SessionArchive* const archive = keeper_.archive_;
  size_t left = archive == nullptr
                    ? 1
                    : static_cast<size_t>(std::clamp<uint64_t>(
                          kSavedBytesAtOnce / archive->bytes_at(way_.end), 1,
                          kSavedAtOnce));
  absl::Status status;
  while (status.ok() && left > 0 && saved_ < sessions_.size()) {
    Session& fork = *sessions_[saved_++];
    const bool logged = IsLogged(fork.durability);
    if (!logged && !in_store_ && fork.tail == nullptr) continue;
    status = Save(fork);
    --left;
    logged_ = logged_ || logged;
  }
  if (status.ok() && saved_ < sessions_.size()) return std::nullopt;
  if (status.ok()) status = keeper_.thread_.PutMade(sessions_);
  // The log goes on from there.
  if (status.ok() && logged_) status = archive->Sync();
  if (status.ok()) {
    Enlist();
  } else {
    Drop();
  }
  return status;
}

absl::Status SessionKeeper::NewForks::Save(Session& fork) {
  if (!in_store_ && fork.tail == nullptr) return keeper_.thread_.Save(fork);
  absl::Status stored = keeper_.thread_.past().Store(fork, way_);
  if (stored.ok() && in_store_) fork.state.Leave();  // it has no slot
  return stored;
}

void SessionKeeper::NewForks::Enlist() {
  Shelf& shelf = keeper_.shelf_;
  const MutexLock lock(shelf.mutex);
  for (std::unique_ptr<Session>& made : sessions_) {
    made->in_making = false;
    Session& fork = shelf.table.Add(std::move(made));
    if (in_store_) {
      ++shelf.HibernatedLike(fork);
    } else if (shelf.stores) {
      shelf.table.WatchIdle(fork);
    }
    if (prefix_.has_value()) shelf.table.SetPrefix(fork, *prefix_);
    shelf.CountUnstored(fork);
    if (KindOfId(fork.id) == SessionKind::kSession) {
      keeper_.metrics_.SessionCreated();
      keeper_.metrics_.Forked();
    }
    // A checkpoint's is a new session.
    shelf.Note(CheckpointName(parent_).has_value() ? SessionEventKind::kCreated
                                                   : SessionEventKind::kForked,
               fork, keeper_.clock_.WallNow(), parent_);
  }
  shelf.NoteSlotMayCome();
  shelf.UpdateGauges();
}

void SessionKeeper::NewForks::Drop() {
  Shelf& shelf = keeper_.shelf_;
  const MutexLock lock(shelf.mutex);
  for (std::unique_ptr<Session>& fork : sessions_) {
    shelf.RemoveStored(*fork, Shelf::Why::kUndone);
    shelf.table.Disclaim(*fork);
    shelf.End(std::move(fork));
  }
  shelf.UpdateGauges();
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
  shelf_.RemoveStored(session, Shelf::Why::kUndone);
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

absl::Status SessionKeeper::NewForks::Reserve(const Session& parent,
                                              absl::Span<const std::string> ids,
                                              uint64_t charge,
                                              SessionOptions& each) {
  const MutexLock lock(keeper_.shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(
      CheckFree(keeper_.shelf_, parent.owner, ids, now_));
  if (each.ttl == absl::InfiniteDuration()) {
    STEADYSTATE_RETURN_IF_ERROR(CheckCheckpoints(keeper_.shelf_, ids.size()));
  }
  const Tier tier = keeper_.shelf_.listed_tier();
  const uint64_t cap = each.context_cap.value_or(parent.state.context_cap());
  STEADYSTATE_RETURN_IF_ERROR(
      keeper_.shelf_.Charge(tier, charge, ids.size(), now_));
  each.owner = parent.owner;
  // A checkpoint's own are not for what is made of it, nor a session's for a
  // checkpoint.
  if (!CheckpointName(parent.id).has_value() &&
      each.ttl != absl::InfiniteDuration()) {
    // One that a stream made has none: as of a new session.
    if (!each.ttl.has_value() && parent.stream == 0) each.ttl = parent.ttl;
    if (each.labels.empty()) each.labels = parent.labels;
  }
  for (const std::string& id : ids) {
    SessionOptions options = each;
    options.id = id;
    auto fork = std::make_unique<Session>(keeper_.layout_);
    Shelf::NoteCharge(*fork, tier, charge);
    fork->state.set_context_cap(cap);
    if (!each.context_cap.has_value()) fork->asked_cap = parent.asked_cap;
    fork->durability = *each.durability;
    fork->in_making = ids.size() > 1;
    keeper_.shelf_.table.Claim(*fork, std::move(options), now_);
    sessions_.push_back(std::move(fork));
  }
  return absl::OkStatus();
}

absl::Status SessionKeeper::NewForks::GoThatWay(
    const Session& parent, WayBack way, std::optional<PrefixDigest> prefix) {
  way_ = std::move(way);
  prefix_ = prefix;
  KeeperThread& thread = keeper_.thread_;
  const uint64_t cap = sessions_.front()->state.context_cap();
  const absl::StatusOr<std::shared_ptr<SessionState>> origin =
      way_.kept == &parent.state ? thread.CopyOf(parent.state, cap)
                                 : thread.CopyOf(way_, cap);
  // With a store it does not matter who uses all slots.
  if (keeper_.archive_ != nullptr && IsExhausted(origin.status())) {
    BecomeStored(parent);
    return absl::OkStatus();
  }
  STEADYSTATE_RETURN_IF_ERROR(origin.status());
  // The last of them may take it over.
  Become(parent, *origin);
  return absl::OkStatus();
}

void SessionKeeper::NewForks::Become(
    const Session& parent, const std::shared_ptr<SessionState>& origin) {
  const MutexLock lock(keeper_.shelf_.mutex);
  for (const std::unique_ptr<Session>& fork : sessions_) {
    Describe(*fork, parent);
    if (origin != nullptr) fork->state.Follow(origin);
    if (way_.pieces != nullptr) {
      fork->tail = std::make_unique<LogTail>(way_.pieces, way_.end);
    }
    fork->position = fork->tail == nullptr ? fork->state.position() : way_.end;
    // What it stands for a copy of may have it longer than the parent has.
    fork->repeatable_from =
        fork->state.position() == 0 ? 0 : way_.repeatable_from;
  }
}

void SessionKeeper::NewForks::BecomeStored(const Session& parent) {
  in_store_ = true;
  const MutexLock lock(keeper_.shelf_.mutex);
  for (const std::unique_ptr<Session>& fork : sessions_) {
    Describe(*fork, parent);
    fork->position = way_.end;
    fork->repeatable_from = way_.repeatable_from;
  }
}

void SessionKeeper::NewForks::Describe(Session& fork,
                                       const Session& parent) const {
  fork.other_numerics = way_.other_numerics;
  fork.recorded = parent.recorded;
  // The store has that, too; SetPrefix lets others find it.
  fork.prefix = prefix_;
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
      const uint64_t charge =
          shelf_.ChargeOf(tier, session.state.context_cap());
      STEADYSTATE_RETURN_IF_ERROR(shelf_.Charge(tier, charge, 1, now));
      shelf_.charges.GiveBack(session.charged, session.charge);
      Shelf::NoteCharge(session, tier, charge);
    }
    session.position = session.state.position();
    session.repeatable_from = session.state.repeatable_from();
    session.NoteRecords();
    shelf_.table.Add(shelf_.TakeUnlisted(session), options, now);
    shelf_.table.SetActive(session, now);
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
  shelf_.RemoveStored(session, Shelf::Why::kUndone);
  shelf_.log.Forget(session);
  shelf_.KeepUnlisted(shelf_.table.Remove(session));
  UpdateGauges();
  return saved;
}

}  // namespace steadystate
