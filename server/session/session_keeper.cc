#include "server/session/session_keeper.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// State memory becomes free when a session expires or is deleted: when the next
// one expires is the best guess, within these bounds.
constexpr absl::Duration kMinStateRetry = absl::Seconds(1);
constexpr absl::Duration kMaxStateRetry = absl::Seconds(60);

// How long one operation of the store may take beyond the time that there is.
constexpr absl::Duration kStoreGrace = absl::Seconds(5);

absl::Status ValidateForks(const ForkOptions& options) {
  if (options.ttl.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(*options.ttl));
  }
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabels(options.labels));
  return ValidateSessionIds(options.ids);
}

size_t StoredSessions(uint64_t store_bytes, const SessionArchive* archive) {
  return archive == nullptr
             ? 0
             : static_cast<size_t>(store_bytes / archive->session_bytes());
}

// A time of day that was `wall`, as steady time; none to come.
Moment Past(absl::Time wall, const Moment& now) {
  const absl::Duration ago = std::max(now.wall - wall, absl::ZeroDuration());
  return {.steady = now.steady - ago, .wall = wall};
}

}  // namespace

SessionKeeper::SessionKeeper(const Limits& limits, const SessionLayout& layout,
                             SessionArchive* archive, const Clock& clock,
                             Metrics& metrics, Returned returned)
    : layout_(layout),
      archive_(archive),
      store_bytes_(limits.store_bytes),
      clock_(clock),
      metrics_(metrics),
      pool_(layout.slot(), layout.charge_bytes(), limits.memory_bytes),
      shelf_(SessionTable(layout, limits.default_ttl,
                          limits.max_expired_remembered, archive != nullptr),
             Charges(pool_.capacity(),
                     StoredSessions(limits.store_bytes, archive)),
             pool_, archive != nullptr, metrics),
      thread_({.shelf = shelf_,
               .layout = layout,
               .pool = pool_,
               .archive = archive,
               .clock = clock,
               .metrics = metrics},
              limits.hibernate_after, std::move(returned)) {
  const MutexLock lock(shelf_.mutex);
  UpdateGauges();
}

SessionKeeper::~SessionKeeper() {
  const MutexLock lock(shelf_.mutex);
  shelf_.stopping = true;
  shelf_.wake.SignalOne();
  const SteadyTime now = clock_.Now();
  for (const Session* session : shelf_.table.Sessions()) {
    metrics_.SessionEnded(SessionEnd::kShutdown, now - session->created.steady,
                          session->position);
  }
}

absl::Status SessionKeeper::TakeUpStored() {
  const Moment now = clock_.Read();
  const auto take_up = [this, &now](StoredSession stored) {
    const MutexLock lock(shelf_.mutex);
    TakeUp(std::move(stored), now);
  };
  STEADYSTATE_RETURN_IF_ERROR(archive_->ForEach(take_up));
  const MutexLock lock(shelf_.mutex);
  UpdateGauges();
  shelf_.wake.SignalOne();
  return absl::OkStatus();
}

void SessionKeeper::TakeUp(StoredSession stored, const Moment& now) {
  SessionTable& table = shelf_.table;
  SessionCard& card = stored.card;
  if (Session* const other = table.FindAny({card.id, card.owner})) {
    // A process that ended while one took the other's place: the later counts.
    if (other->created.wall >= card.create_time) {
      shelf_.removals.push_back({card.uid, nullptr});
      return;
    }
    shelf_.removals.push_back({other->uid, nullptr});
    --shelf_.hibernated;
    shelf_.End(table.Remove(*other));
  }
  auto session = std::make_unique<Session>(layout_);
  session->uid = card.uid;
  session->position = stored.position;
  session->other_numerics = stored.other_numerics;
  session->stored = stored.position;
  session->charged = Tier::kStore;
  session->state.Leave();
  shelf_.charges.Take(Tier::kStore, 1);
  ++shelf_.hibernated;
  SessionOptions options;
  options.owner = std::move(card.owner);
  options.id = std::move(card.id);
  options.ttl = card.ttl;
  options.labels = std::move(card.labels);
  Session& added = table.Add(std::move(session), std::move(options), now);
  table.SetTimes(added, Past(card.create_time, now),
                 Past(card.last_step_time, now));
  added.stored_step = added.last_step.steady;
}

std::optional<size_t> SessionKeeper::StoreAll(absl::Duration timeout) {
  const auto give_up = std::chrono::steady_clock::now() +
                       absl::ToChronoNanoseconds(timeout + kStoreGrace);
  const MutexLock lock(shelf_.mutex);
  shelf_.sweep = clock_.Now() + timeout;
  shelf_.wake.SignalOne();
  while (shelf_.sweep.has_value()) {
    const auto left = give_up - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return std::nullopt;
    shelf_.done.WaitFor(shelf_.mutex, left);
  }
  return shelf_.not_swept;
}

absl::StatusOr<SessionInfo> SessionKeeper::Create(
    const SessionOptions& options) {
  const Moment now = clock_.Read();
  while (MoreExpiryMayMakeRoom(1, now)) {
  }
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckNew(options));
  const Tier tier = shelf_.listed_tier();
  STEADYSTATE_RETURN_IF_ERROR(Charge(tier, 1, now));
  StateLease lease;
  if (tier == Tier::kMemory) {
    absl::StatusOr<StateLease> free = LeaseIfFree();
    if (!free.ok()) {
      shelf_.charges.GiveBack(tier, 1);
      return free.status();
    }
    lease = *std::move(free);
  }
  Session& session = shelf_.table.Add(options, now);
  session.charged = tier;
  session.state.SetSlot(std::move(lease));
  metrics_.SessionCreated();
  UpdateGauges();
  return shelf_.table.Describe(session, now);
}

absl::StatusOr<SessionInfo> SessionKeeper::Get(const SessionKey& key) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session, Find(key, now));
  return shelf_.table.Describe(*session, now);
}

absl::StatusOr<SessionPage> SessionKeeper::List(absl::string_view owner,
                                                size_t page_size,
                                                absl::string_view page_token) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  shelf_.EndExpired(now);
  return shelf_.table.List(owner, page_size, page_token, now);
}

absl::Status SessionKeeper::Hibernate(const SessionKey& key,
                                      Shelf::Hibernated hibernated) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(Find(key, now).status());
  if (!shelf_.stores) {
    return MakeError(ErrorReason::kNoStore,
                     "this server keeps sessions in memory only: start it with "
                     "--store");
  }
  shelf_.bedtimes.push_back({.owner = std::string(key.owner),
                             .id = std::string(key.id),
                             .hibernated = std::move(hibernated)});
  shelf_.wake.SignalOne();
  return absl::OkStatus();
}

absl::StatusOr<Session*> SessionKeeper::Find(const SessionKey& key,
                                             const Moment& now) {
  shelf_.EndExpired(now);
  return shelf_.table.Find(key, now);
}

absl::StatusOr<Session*> SessionKeeper::CreateUnlisted(const Moment& now) {
  shelf_.EndExpired(now);
  STEADYSTATE_RETURN_IF_ERROR(Charge(Tier::kMemory, 1, now));
  absl::StatusOr<StateLease> lease = LeaseIfFree();
  if (!lease.ok()) {
    shelf_.charges.GiveBack(Tier::kMemory, 1);
    return lease.status();
  }
  Session& session = shelf_.KeepUnlisted(std::make_unique<Session>(layout_));
  session.state.SetSlot(*std::move(lease));
  return &session;
}

absl::StatusOr<Session*> SessionKeeper::Delete(const SessionKey& key,
                                               const Moment& now,
                                               Shelf::Removed& removed) {
  STEADYSTATE_ASSIGN_OR_RETURN(Session* const session, Find(key, now));
  metrics_.SessionEnded(SessionEnd::kDeleted,
                        now.steady - session->created.steady,
                        session->position);
  const bool in_use = session->active;
  if (!in_use && session->state.stored()) --shelf_.hibernated;
  shelf_.RemoveStored(*session, removed);
  std::unique_ptr<Session> taken = shelf_.table.Remove(*session);
  if (in_use) {
    shelf_.KeepUnlisted(std::move(taken));
  } else {
    shelf_.End(std::move(taken));
  }
  UpdateGauges();
  return in_use ? session : nullptr;
}

void SessionKeeper::Use(Session& session) {
  if (session.state.stored()) --shelf_.hibernated;
  shelf_.table.SetActive(session);
}

void SessionKeeper::LetGo(Session& session, const Moment& now) {
  if (session.unlisted.has_value()) {
    shelf_.End(shelf_.TakeUnlisted(session));
    UpdateGauges();
    return;
  }
  shelf_.table.SetIdle(session, now);
  // It may not have come back from the store.
  if (session.state.stored()) ++shelf_.hibernated;
  if (shelf_.waiting.empty()) return;
  shelf_.slot_may_come = true;
  shelf_.wake.SignalOne();
}

void SessionKeeper::Advanced(Session& session, const Moment& now) {
  session.position = session.state.position();
  session.last_step = now;
}

void SessionKeeper::Order(Session& session, Work work) {
  Shelf::Job job = {.session = &session,
                    .work = std::move(work),
                    .ordered = clock_.Now(),
                    .waited = !session.state.in_memory()};
  if (job.waited) {
    session.job = ++shelf_.last_job;
    shelf_.waiting.emplace(*session.job, std::move(job));
    shelf_.slot_may_come = true;
  } else {
    shelf_.jobs.push_back(std::move(job));
  }
  shelf_.wake.SignalOne();
}

bool SessionKeeper::Withdraw(Session& session) {
  if (!session.job.has_value()) return false;
  shelf_.waiting.erase(*session.job);
  session.job.reset();
  return true;
}

absl::Status SessionKeeper::Charge(Tier tier, size_t sessions,
                                   const Moment& now) {
  if (sessions > shelf_.charges.left(tier)) return Refused(tier, now);
  shelf_.charges.Take(tier, sessions);
  return absl::OkStatus();
}

// The charges decide, not the free slots: some of these are for sessions that
// have been charged and have not asked for theirs. An empty lease if the slot
// comes later.
absl::StatusOr<StateLease> SessionKeeper::LeaseIfFree() {
  // One that is free by the charges is being cleared, or will be.
  if (pool_.lent() == pool_.capacity()) return StateLease();
  return pool_.Allocate();
}

absl::Status SessionKeeper::Refused(Tier tier, const Moment& now) const {
  const absl::Duration retry = std::clamp(
      shelf_.table.NextExpiry() - now.steady, kMinStateRetry, kMaxStateRetry);
  if (tier == Tier::kStore) {
    return MakeError(
        ErrorReason::kStateBudgetExhausted,
        absl::StrCat("sessions take all ", FormatByteSize(store_bytes_),
                     " that they may take in the store; one is counted as ",
                     FormatByteSize(archive_->session_bytes()),
                     ": delete sessions or raise --store_budget"),
        {{"budget_bytes", absl::StrCat(store_bytes_)},
         {"session_bytes", absl::StrCat(archive_->session_bytes())}},
        retry);
  }
  const std::optional<ErrorDetails> details =
      GetErrorDetails(pool_.Exhausted());
  return MakeError(details->reason, pool_.Exhausted().message(),
                   details->metadata, retry);
}

absl::StatusOr<Forks> SessionKeeper::Fork(const Session& parent,
                                          const ForkOptions& options) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateForks(options));
  Forks forks = {.ids = options.ids, .position = parent.state.position()};
  while (forks.ids.size() < options.count) forks.ids.push_back(NewSessionId());
  const Moment now = clock_.Read();
  while (MoreExpiryMayMakeRoom(forks.ids.size(), now)) {
  }
  SessionOptions each;
  each.ttl = options.ttl;
  each.labels = options.labels;
  // Counted before anything is copied, so that there will be a slot.
  STEADYSTATE_RETURN_IF_ERROR(
      ReserveForks(parent, forks.ids.size(), options.ids, now, each));
  MayPark("SessionKeeper::Fork");
  absl::StatusOr<std::shared_ptr<SessionState>> origin =
      thread_.CopyOf(parent.state);
  std::vector<SessionOptions> children(forks.ids.size(), each);
  for (size_t i = 0; i < children.size(); ++i) children[i].id = forks.ids[i];
  const MutexLock lock(shelf_.mutex);
  // Others may have taken an id meanwhile.
  const absl::Status fits =
      origin.ok() ? CheckFree(each.owner, forks.ids) : origin.status();
  if (!fits.ok()) {
    shelf_.charges.GiveBack(shelf_.listed_tier(), children.size());
    return fits;
  }
  for (SessionOptions& child : children) {
    AddFork(parent, std::move(child), *origin, now);
  }
  UpdateGauges();
  return forks;
}

absl::Status SessionKeeper::ReserveForks(const Session& parent, size_t count,
                                         absl::Span<const std::string> ids,
                                         const Moment& now,
                                         SessionOptions& each) {
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(CheckFree(parent.owner, ids));
  STEADYSTATE_RETURN_IF_ERROR(Charge(shelf_.listed_tier(), count, now));
  each.owner = parent.owner;
  if (!each.ttl.has_value()) each.ttl = parent.ttl;
  if (each.labels.empty()) each.labels = parent.labels;
  return absl::OkStatus();
}

absl::Status SessionKeeper::CheckFree(absl::string_view owner,
                                      absl::Span<const std::string> ids) const {
  for (const std::string& id : ids) {
    STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckFree({id, owner}));
  }
  return absl::OkStatus();
}

void SessionKeeper::AddFork(const Session& parent, SessionOptions options,
                            std::shared_ptr<SessionState> origin,
                            const Moment& now) {
  Session& fork = shelf_.table.Add(std::move(options), now);
  fork.charged = shelf_.listed_tier();
  fork.other_numerics = parent.other_numerics;
  fork.state.Follow(std::move(origin));
  if (shelf_.stores) shelf_.table.WatchIdle(fork);
  shelf_.slot_may_come = true;
  fork.position = fork.state.position();
  fork.recorded = parent.recorded;
  metrics_.SessionCreated();
}

SessionCard SessionKeeper::CardOf(const Session& session) {
  const MutexLock lock(shelf_.mutex);
  return session.card();
}

absl::StatusOr<SessionInfo> SessionKeeper::Enlist(
    Session& session, const SessionOptions& options) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(shelf_.table.CheckNew(options));
  const Tier tier = shelf_.listed_tier();
  if (tier != session.charged) {
    STEADYSTATE_RETURN_IF_ERROR(Charge(tier, 1, now));
    shelf_.charges.GiveBack(session.charged, 1);
    session.charged = tier;
  }
  session.position = session.state.position();
  session.NoteRecords();
  shelf_.table.Add(shelf_.TakeUnlisted(session), options, now);
  shelf_.table.SetActive(session);
  metrics_.SessionCreated();
  UpdateGauges();
  return shelf_.table.Describe(session, now);
}

// Nobody is refused for the memory of sessions that have expired, however many
// others stand before them. Between two calls others get the lock.
bool SessionKeeper::MoreExpiryMayMakeRoom(size_t sessions, const Moment& now) {
  const MutexLock lock(shelf_.mutex);
  shelf_.EndExpired(now);
  return sessions > shelf_.charges.left(shelf_.listed_tier()) &&
         shelf_.table.NextExpiry() <= now.steady;
}

}  // namespace steadystate
