#include "server/session/session_keeper.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

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

// Sessions that are looked at under one lock when they may have expired: some
// microseconds of work.
constexpr size_t kExpiredAtOnce = 16;

// So long the thread sleeps at most: clocks of tests are not the one by which
// it waits.
constexpr absl::Duration kMaxWait = absl::Seconds(1);

absl::Status ValidateForks(const ForkOptions& options) {
  if (options.ttl.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(ValidateSessionTtl(*options.ttl));
  }
  STEADYSTATE_RETURN_IF_ERROR(ValidateLabels(options.labels));
  return ValidateSessionIds(options.ids);
}

}  // namespace

SessionKeeper::SessionKeeper(const Limits& limits, const SessionLayout& layout,
                             const Clock& clock, Metrics& metrics,
                             Returned returned)
    : layout_(layout),
      clock_(clock),
      metrics_(metrics),
      returned_(std::move(returned)),
      pool_(layout.slot(), layout.charge_bytes(), limits.memory_bytes),
      table_(layout, limits.default_ttl, limits.max_expired_remembered) {
  {
    const MutexLock lock(mutex_);
    UpdateGauges();
  }
  thread_ = std::thread([this] { Loop(); });
}

SessionKeeper::~SessionKeeper() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_.SignalOne();
  }
  thread_.join();
  const MutexLock lock(mutex_);
  const SteadyTime now = clock_.Now();
  for (const Session* session : table_.Sessions()) {
    metrics_.SessionEnded(SessionEnd::kShutdown, now - session->created.steady,
                          session->position);
  }
}

absl::StatusOr<SessionInfo> SessionKeeper::Create(
    const SessionOptions& options) {
  const Moment now = clock_.Read();
  while (MoreExpiryMayMakeRoom(1, now)) {
  }
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(table_.CheckNew(options));
  STEADYSTATE_ASSIGN_OR_RETURN(StateLease lease, Charge(now));
  Session& session = table_.Add(options, now);
  session.state.SetSlot(std::move(lease));
  metrics_.SessionCreated();
  UpdateGauges();
  return table_.Describe(session, now);
}

absl::StatusOr<SessionInfo> SessionKeeper::Get(const SessionKey& key) {
  const Moment now = clock_.Read();
  const MutexLock lock(mutex_);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session, Find(key, now));
  return table_.Describe(*session, now);
}

absl::StatusOr<SessionPage> SessionKeeper::List(absl::string_view owner,
                                                size_t page_size,
                                                absl::string_view page_token) {
  const Moment now = clock_.Read();
  const MutexLock lock(mutex_);
  EndExpired(now);
  return table_.List(owner, page_size, page_token, now);
}

absl::StatusOr<Session*> SessionKeeper::Find(const SessionKey& key,
                                             const Moment& now) {
  EndExpired(now);
  return table_.Find(key, now);
}

absl::StatusOr<Session*> SessionKeeper::CreateUnlisted(const Moment& now) {
  EndExpired(now);
  STEADYSTATE_ASSIGN_OR_RETURN(StateLease lease, Charge(now));
  Session& session = KeepUnlisted(std::make_unique<Session>(layout_));
  session.state.SetSlot(std::move(lease));
  return &session;
}

absl::StatusOr<Session*> SessionKeeper::Delete(const SessionKey& key,
                                               const Moment& now) {
  STEADYSTATE_ASSIGN_OR_RETURN(Session* const session, Find(key, now));
  metrics_.SessionEnded(SessionEnd::kDeleted,
                        now.steady - session->created.steady,
                        session->position);
  const bool in_use = session->active;
  std::unique_ptr<Session> removed = table_.Remove(*session);
  if (in_use) {
    KeepUnlisted(std::move(removed));
  } else {
    End(std::move(removed));
  }
  UpdateGauges();
  return in_use ? session : nullptr;
}

void SessionKeeper::Use(Session& session) { table_.SetActive(session); }

void SessionKeeper::LetGo(Session& session, const Moment& now) {
  if (!session.unlisted.has_value()) {
    table_.SetIdle(session, now);
    return;
  }
  End(TakeUnlisted(session));
  UpdateGauges();
}

std::unique_ptr<Session> SessionKeeper::TakeUnlisted(Session& session) {
  std::unique_ptr<Session>& place = unlisted_[*session.unlisted];
  std::unique_ptr<Session> taken = std::move(place);
  if (&place != &unlisted_.back()) {
    place = std::move(unlisted_.back());
    place->unlisted = taken->unlisted;
  }
  unlisted_.pop_back();
  taken->unlisted.reset();
  return taken;
}

void SessionKeeper::Advanced(Session& session, const Moment& now) {
  session.position = session.state.position();
  session.last_step = now;
}

void SessionKeeper::Order(Session& session, Work work) {
  std::deque<Job>& jobs = session.state.in_memory() ? jobs_ : waiting_;
  jobs.push_back({.session = &session, .work = std::move(work)});
  wake_.SignalOne();
}

// The charges decide, not the free slots: some of these are for sessions that
// have been charged and have not asked for theirs.
absl::StatusOr<StateLease> SessionKeeper::LeaseForOneMore() {
  if (charged_ == pool_.capacity()) return pool_.Exhausted();
  // One that is free is being cleared.
  if (pool_.lent() == pool_.capacity()) return StateLease();
  return pool_.Allocate();
}

absl::StatusOr<StateLease> SessionKeeper::Charge(const Moment& now) {
  absl::StatusOr<StateLease> lease = LeaseForOneMore();
  if (lease.ok()) {
    ++charged_;
    return lease;
  }
  return Refused(lease.status(), now);
}

absl::Status SessionKeeper::Refused(const absl::Status& no_room,
                                    const Moment& now) const {
  const std::optional<ErrorDetails> details = GetErrorDetails(no_room);
  return MakeError(details->reason, no_room.message(), details->metadata,
                   std::clamp(table_.NextExpiry() - now.steady, kMinStateRetry,
                              kMaxStateRetry));
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
  absl::StatusOr<std::shared_ptr<SessionState>> origin = CopyOf(parent.state);
  std::vector<SessionOptions> children(forks.ids.size(), each);
  for (size_t i = 0; i < children.size(); ++i) children[i].id = forks.ids[i];
  const MutexLock lock(mutex_);
  // Others may have taken an id meanwhile.
  const absl::Status fits =
      origin.ok() ? CheckFree(each.owner, forks.ids) : origin.status();
  if (!fits.ok()) {
    charged_ -= children.size();
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
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckFree(parent.owner, ids));
  if (count > pool_.capacity() - charged_) {
    return Refused(pool_.Exhausted(), now);
  }
  charged_ += count;
  each.owner = parent.owner;
  if (!each.ttl.has_value()) each.ttl = parent.ttl;
  if (each.labels.empty()) each.labels = parent.labels;
  return absl::OkStatus();
}

absl::Status SessionKeeper::CheckFree(absl::string_view owner,
                                      absl::Span<const std::string> ids) const {
  for (const std::string& id : ids) {
    STEADYSTATE_RETURN_IF_ERROR(table_.CheckFree({id, owner}));
  }
  return absl::OkStatus();
}

// A state that others can stand for copies of.
absl::StatusOr<std::shared_ptr<SessionState>> SessionKeeper::CopyOf(
    const SessionState& state) {
  auto copy = std::make_shared<SessionState>(layout_);
  while (true) {
    absl::StatusOr<StateLease> lease = pool_.Allocate();
    if (lease.ok()) {
      copy->SetSlot(*std::move(lease));
      copy->CopyFrom(state);
      return copy;
    }
    // What is charged has a slot, once what has ended is cleared, and those
    // that have a slot need no other one's.
    if (!ClearOne() && !FillOne()) return lease.status();
  }
}

void SessionKeeper::AddFork(const Session& parent, SessionOptions options,
                            std::shared_ptr<SessionState> origin,
                            const Moment& now) {
  Session& fork = table_.Add(std::move(options), now);
  fork.state.Follow(std::move(origin));
  fork.position = fork.state.position();
  fork.recorded = parent.recorded;
  metrics_.SessionCreated();
}

SessionCard SessionKeeper::CardOf(const Session& session) {
  const MutexLock lock(mutex_);
  SessionCard card;
  card.uid = session.uid;
  card.owner = session.owner;
  card.id = session.id;
  card.labels = session.labels;
  card.ttl = session.ttl;
  card.create_time = session.created.wall;
  card.last_step_time = session.last_step.wall;
  return card;
}

absl::StatusOr<SessionInfo> SessionKeeper::Enlist(
    Session& session, const SessionOptions& options) {
  const Moment now = clock_.Read();
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(table_.CheckNew(options));
  session.position = session.state.position();
  for (const RequestRecord& record : session.state.contents().records) {
    session.recorded.Note(RecordedKeys::KeyOf(record.id, record.begin));
  }
  table_.Add(TakeUnlisted(session), options, now);
  table_.SetActive(session);
  metrics_.SessionCreated();
  UpdateGauges();
  return table_.Describe(session, now);
}

Session& SessionKeeper::KeepUnlisted(std::unique_ptr<Session> session) {
  session->unlisted = unlisted_.size();
  unlisted_.push_back(std::move(session));
  return *unlisted_.back();
}

void SessionKeeper::End(std::unique_ptr<Session> session) {
  --charged_;
  ended_.push_back(std::move(session));
  wake_.SignalOne();
}

// Nobody is refused for the memory of sessions that have expired, however many
// others stand before them. Between two calls others get the lock.
bool SessionKeeper::MoreExpiryMayMakeRoom(size_t sessions, const Moment& now) {
  const MutexLock lock(mutex_);
  EndExpired(now);
  return sessions > pool_.capacity() - charged_ &&
         table_.NextExpiry() <= now.steady;
}

// Whoever finds that sessions have expired takes a few of them out, so that it
// counts exactly; the thread takes the rest.
void SessionKeeper::EndExpired(const Moment& now) {
  if (table_.NextExpiry() > now.steady) return;
  for (auto& session : table_.TakeExpired(now, kExpiredAtOnce)) {
    metrics_.SessionEnded(SessionEnd::kExpired,
                          session->expire_time() - session->created.steady,
                          session->position);
    End(std::move(session));
  }
  UpdateGauges();
}

void SessionKeeper::UpdateGauges() {
  metrics_.SetSessions(table_.active(), table_.size() - table_.active());
  metrics_.SetStateBytes(charged_ * pool_.charge_bytes(), pool_.budget_bytes(),
                         pool_.charge_bytes());
}

void SessionKeeper::Loop() {
  pthread_setname_np(pthread_self(), "keeper");  // as tools show it
  while (true) {
    {
      const MutexLock lock(mutex_);
      WaitForWork();
      EndExpired(clock_.Read());
      BringWaiting();
      if (stopping_ && jobs_.empty() && waiting_.empty()) return;
    }
    DoJob();
    ClearOne();
  }
}

void SessionKeeper::WaitForWork() {
  if (stopping_ || !jobs_.empty() || !ended_.empty() || !waiting_.empty()) {
    return;
  }
  const absl::Duration wait =
      std::min(table_.NextExpiry() - clock_.Now(), kMaxWait);
  if (wait <= absl::ZeroDuration()) return;
  wake_.WaitFor(mutex_, absl::ToChronoNanoseconds(wait));
}

// Gives slots to those that wait for one, in order. There are enough for all
// that are charged, once what has ended is cleared.
void SessionKeeper::BringWaiting() {
  while (!waiting_.empty()) {
    Job& job = waiting_.front();
    if (!job.session->state.TakeOver()) {
      absl::StatusOr<StateLease> lease = pool_.Allocate();
      if (lease.ok()) {
        job.session->state.SetSlot(*std::move(lease));
      } else if (!ended_.empty() || !jobs_.empty()) {
        // Some slot becomes free, or this one can take one over.
        return;
      } else {
        job.work = [refused = lease.status()](Session&) { return refused; };
      }
    }
    jobs_.push_back(std::move(job));
    waiting_.pop_front();
  }
}

void SessionKeeper::DoJob() {
  Job job;
  {
    const MutexLock lock(mutex_);
    if (jobs_.empty()) return;
    job = std::move(jobs_.front());
    jobs_.pop_front();
  }
  MayPark("SessionKeeper::DoJob");
  FillSlot(*job.session);
  absl::Status status = job.work ? job.work(*job.session) : absl::OkStatus();
  // Whoever ordered it may be about to let go of the session, and to end.
  job.work = nullptr;
  returned_(*job.session, std::move(status));
}

// A session that has been given a slot and stands for a copy gets that.
void SessionKeeper::FillSlot(Session& session) {
  SessionState& state = session.state;
  if (!state.has_slot() || state.in_memory()) return;
  state.CopyOrigin();
  std::shared_ptr<SessionState> origin;
  const MutexLock lock(mutex_);
  origin = state.DropOrigin();
}

// The same for one that waits for the thread. False if there was none.
bool SessionKeeper::FillOne() {
  Session* unfilled = nullptr;
  {
    const MutexLock lock(mutex_);
    for (const Job& job : jobs_) {
      const SessionState& state = job.session->state;
      if (state.has_slot() && !state.in_memory()) unfilled = job.session;
    }
  }
  if (unfilled == nullptr) return false;
  FillSlot(*unfilled);
  return true;
}

// One at a time, so that nobody waits long for what else the thread does. False
// if there was none.
bool SessionKeeper::ClearOne() {
  std::unique_ptr<Session> ended;
  {
    const MutexLock lock(mutex_);
    if (ended_.empty()) return false;
    ended = std::move(ended_.back());
    ended_.pop_back();
  }
  MayPark("SessionKeeper::ClearOne");
  return true;
}

}  // namespace steadystate
