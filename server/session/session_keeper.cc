#include "server/session/session_keeper.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/byte_size.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/log_entry.h"
#include "server/session/log_recovery.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

// Snapshots that shorten replays are written no faster than this: those of 16
// sessions of mamba2-130m, 19 MB each, once a second each, took half of the
// speed and made steps wait for a second.
constexpr double kSnapshotBytesPerSecond = 16e6;

// Snapshots that are read to find what another server's numerics were.
constexpr size_t kLookedIntoForNumerics = 16;

// How long one operation of the store may take beyond the time that there is.
constexpr absl::Duration kStoreGrace = absl::Seconds(5);

// What the store meets for the first time it may put right by itself, such as
// damage that is no session's.
absl::StatusOr<RecoveredSessions> RecoverWithPatience(SessionArchive& archive) {
  absl::StatusOr<RecoveredSessions> recovered = RecoverSessions(archive);
  const std::optional<ErrorDetails> details =
      GetErrorDetails(recovered.status());
  if (!details.has_value() || !details->retry_after.has_value()) {
    return recovered;
  }
  LogWarning("sessions cannot be taken up yet",
             {{"error", recovered.status().message()}});
  absl::SleepFor(*details->retry_after);
  return RecoverSessions(archive);
}

absl::Status NoStore() {
  return MakeError(ErrorReason::kNoStore,
                   "this server keeps sessions in memory only: start it with "
                   "--store");
}

absl::Status NeverStored(const Session& session) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(Called(session.id),
                   " is ephemeral: it is in memory until its stream ends"),
      {{"field", "name"}, {"value", session.id}});
}

// A time of day that was `wall`, as steady time; none to come.
Moment Past(absl::Time wall, const Moment& now) {
  const absl::Duration ago = std::max(now.wall - wall, absl::ZeroDuration());
  return {.steady = now.steady - ago, .wall = wall};
}

// The latest round that tells of it, before it was stored as it is.
uint64_t RoundOf(const StoredSession& stored) {
  return std::max(stored.round,
                  stored.tail.has_value() ? stored.tail->through_round : 0);
}

// In what those differ from these that advanced the sessions, as snapshots tell
// that they have written; the log does not.
std::string NumericsOf(const std::vector<SessionUid>& sessions,
                       SessionArchive& archive) {
  for (const SessionUid& uid : sessions) {
    absl::StatusOr<std::string> differs = archive.NumericsOf(uid);
    if (differs.ok() && !differs->empty()) return *std::move(differs);
  }
  return "not known here: see what it logged as numerics at its start";
}

// Of two that were given the same name: did the first get it after the other?
// Rounds tell, where both are in the log: a clock may have been set back.
bool CameLater(const StoredSession& stored, const Session& other) {
  const uint64_t round = RoundOf(stored);
  if (round > 0 && other.log.last > 0 && round != other.log.last) {
    return round > other.log.last;
  }
  return stored.card.create_time > other.created.wall;
}

}  // namespace

SessionKeeper::SessionKeeper(const SessionLimits& limits,
                             const SessionLayout& layout,
                             SessionArchive* archive, const Clock& clock,
                             Metrics& metrics, Returned returned,
                             KeeperThread::Due due)
    : layout_(layout),
      archive_(archive),
      default_durability_(limits.default_durability),
      log_sync_interval_(limits.log_sync_interval),
      max_replay_(limits.max_replay),
      allow_other_numerics_(limits.allow_other_numerics),
      clock_(clock),
      metrics_(metrics),
      pool_(layout.slot(), layout.lease_bytes(layout.context_cap()),
            limits.memory_bytes, layout.lease_bytes(1)),
      shelf_(SessionTable(layout, limits.default_ttl,
                          limits.max_expired_remembered, archive != nullptr),
             layout, pool_, archive, limits, metrics),
      thread_({.shelf = shelf_,
               .layout = layout,
               .pool = pool_,
               .archive = archive,
               .allow_other_numerics = limits.allow_other_numerics,
               .clock = clock,
               .metrics = metrics},
              limits.hibernate_after, std::move(returned), std::move(due)) {
  const MutexLock lock(shelf_.mutex);
  UpdateGauges();
}

SessionKeeper::~SessionKeeper() {
  const MutexLock lock(shelf_.mutex);
  shelf_.stopping = true;
  shelf_.wake.SignalOne();
  const SteadyTime now = clock_.Now();
  for (const Session* session : shelf_.table.Sessions()) {
    if (KindOfId(session->id) != SessionKind::kSession) continue;
    metrics_.SessionEnded(SessionEnd::kShutdown, now - session->created.steady,
                          session->position);
  }
}

absl::Status SessionKeeper::TakeUpStored() {
  const Moment now = clock_.Read();
  STEADYSTATE_ASSIGN_OR_RETURN(RecoveredSessions recovered,
                               RecoverWithPatience(*archive_));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<ExpiredId> expired,
                               archive_->Expired());
  const auto failed = [this](uint64_t first, uint64_t last) {
    const MutexLock lock(shelf_.mutex);
    shelf_.log.Break(first, last);
    shelf_.removals.Break(first, last);
  };
  journal_.emplace(archive_->store(), recovered.next_round, log_sync_interval_,
                   clock_, metrics_, failed);
  {
    const MutexLock lock(shelf_.mutex);
    shelf_.journal = &*journal_;
    // Before the sessions, since they may be of the same names.
    for (const ExpiredId& id : expired) shelf_.table.expired().AddStored(id);
    for (StoredSession& stored : recovered.sessions) {
      TakeUp(std::move(stored), now);
    }
    // Others may be kept now, or those that had given way could not be deleted
    // before a kill.
    shelf_.EndPrefixesAbove(shelf_.max_prefixes);
    UpdateGauges();
    shelf_.wake.SignalOne();
  }
  TellUnusable();
  return absl::OkStatus();
}

// Before anybody touches such sessions, while another server can be started.
void SessionKeeper::TellUnusable() {
  constexpr auto kOthers = static_cast<size_t>(Unusable::kOtherNumerics);
  constexpr auto kCorrupt = static_cast<size_t>(Unusable::kSnapshotCorrupt);
  std::array<size_t, kUnusables> count{};
  std::array<std::string, kUnusables> one_of_them;
  std::vector<SessionUid> others;
  {
    const MutexLock lock(shelf_.mutex);
    count = shelf_.unusable;
    if (count[kOthers] + count[kCorrupt] == 0) return;
    for (const Session* const session : shelf_.table.Sessions()) {
      if (session->unusable == Unusable::kNo) continue;
      one_of_them[static_cast<size_t>(session->unusable)] = session->id;
      if (session->unusable == Unusable::kOtherNumerics &&
          others.size() < kLookedIntoForNumerics) {
        others.push_back(session->uid);
      }
    }
  }
  if (count[kOthers] > 0) {
    LogWarning(
        "sessions are refused with NUMERICS_MISMATCH: a server that computes "
        "other bits advanced them and was killed",
        {{"sessions", count[kOthers]},
         {"one_of_them", one_of_them[kOthers]},
         {"it_had", NumericsOf(others, *archive_)},
         {"what_to_do",
          "start that server once more, let it compute each (session get ID "
          "--norms), and stop it by SIGTERM; or start this one with "
          "--allow_other_numerics: they go on, within rounding"}});
  }
  if (count[kCorrupt] > 0) {
    LogError(
        "sessions are refused with SNAPSHOT_CORRUPT: a part of what they have "
        "absorbed is missing in the log",
        {{"sessions", count[kCorrupt]},
         {"one_of_them", one_of_them[kCorrupt]}});
  }
}

void SessionKeeper::TakeUp(StoredSession stored, const Moment& now) {
  SessionTable& table = shelf_.table;
  SessionCard& card = stored.card;
  // What of it was written was for that process, or was not all.
  if (stored.durability == Durability::kNone || stored.unfinished) {
    shelf_.removals.Add({.uid = card.uid}, nullptr);
    return;
  }
  if (Session* const other = table.FindAny({card.id, card.owner})) {
    // A process that ended while one took the other's place: the later counts,
    // and none before both are gone.
    const bool later = CameLater(stored, *other);
    shelf_.removals.Add(
        {.uid = later ? other->uid : card.uid, .name = NameOf(other->key())},
        nullptr);
    if (!later) return;
    --shelf_.HibernatedLike(*other);
    shelf_.End(table.Remove(*other));
  }
  auto session = std::make_unique<Session>(layout_);
  session->uid = card.uid;
  session->position =
      stored.tail.has_value() ? stored.tail->end : stored.position;
  session->other_numerics = stored.other_numerics;
  if (stored.taken_back) session->health = Health::kTakenBack;
  session->durability = stored.durability;
  session->stored = session->position;
  session->snapshot = stored.position;
  session->snapshot_drops = stored.drops_unfinished;
  session->log.last = RoundOf(stored);
  session->repeatable_from = stored.repeatable_from;
  session->stored_tail = stored.tail;
  session->state.Leave();
  shelf_.TakeUp(*session, card.id, card.context_cap);
  SessionOptions options;
  options.owner = std::move(card.owner);
  options.id = std::move(card.id);
  options.ttl = card.ttl;
  options.labels = std::move(card.labels);
  Session& added = table.Add(std::move(session), std::move(options), now);
  const auto& tail = added.stored_tail;
  if (tail.has_value() && tail->damaged) {
    shelf_.SetUnusable(added, Unusable::kSnapshotCorrupt);
  } else if (!allow_other_numerics_ && archive_->NeedsOtherNumerics(tail)) {
    shelf_.SetUnusable(added, Unusable::kOtherNumerics);
  }
  ++shelf_.HibernatedLike(added);
  table.SetTimes(added, Past(card.create_time, now),
                 Past(card.last_step_time, now));
  added.stored_step = added.noted_use = added.last_step.steady;
  if (stored.prefix.has_value()) table.SetPrefix(added, *stored.prefix);
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

absl::StatusOr<Durability> SessionKeeper::DurabilityOf(
    std::optional<Durability> asked, Durability otherwise) const {
  if (archive_ != nullptr) return asked.value_or(otherwise);
  if (asked.value_or(Durability::kNone) == Durability::kNone) {
    return Durability::kNone;
  }
  return NoStore();
}

absl::StatusOr<SessionInfo> SessionKeeper::Get(const SessionKey& key) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session, Find(key, now));
  return shelf_.table.Describe(*session, now);
}

absl::StatusOr<SessionPage> SessionKeeper::List(const SessionQuery& query,
                                                size_t page_size,
                                                absl::string_view page_token) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  shelf_.EndExpired(now);
  return shelf_.table.List(query, page_size, page_token, now);
}

absl::Status SessionKeeper::Hibernate(const SessionKey& key,
                                      Shelf::Hibernated hibernated) {
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session, Find(key, now));
  if (!shelf_.stores) {
    return NoStore();
  }
  if (session->stream != 0) return NeverStored(*session);
  shelf_.bedtimes.push_back({.owner = std::string(key.owner),
                             .id = std::string(key.id),
                             .hibernated = std::move(hibernated)});
  shelf_.wake.SignalOne();
  return absl::OkStatus();
}

void SessionKeeper::GiveUpHibernations(const absl::Status& why) {
  std::deque<Shelf::Bedtime> given_up;
  {
    const MutexLock lock(shelf_.mutex);
    given_up.swap(shelf_.bedtimes);
  }
  for (const Shelf::Bedtime& bedtime : given_up) {
    bedtime.hibernated(CloneError(why));
  }
}

absl::StatusOr<Session*> SessionKeeper::Find(const SessionKey& key,
                                             const Moment& now) {
  shelf_.EndExpired(now);
  return shelf_.table.Find(key, now);
}

bool SessionKeeper::Delete(Session& session, const Moment& now,
                           Shelf::Removed& removed) {
  if (KindOfId(session.id) == SessionKind::kSession) {
    metrics_.SessionEnded(SessionEnd::kDeleted,
                          now.steady - session.created.steady,
                          session.position);
  }
  shelf_.Note(SessionEventKind::kDeleted, session, now.wall);
  const bool in_use = session.active;
  if (!in_use && session.state.stored()) {
    --shelf_.HibernatedLike(session);
  }
  shelf_.RemoveStored(session, Shelf::Why::kDeleted, removed);
  shelf_.log.Forget(session);
  std::unique_ptr<Session> taken = shelf_.table.Remove(session);
  if (in_use) {
    shelf_.KeepUnlisted(std::move(taken));
  } else {
    shelf_.End(std::move(taken));
  }
  UpdateGauges();
  return in_use;
}

bool SessionKeeper::JoinDeletion(const SessionKey& key,
                                 Shelf::Removed& removed) {
  shelf_.wake.SignalOne();
  return shelf_.removals.Join(key, removed);
}

void SessionKeeper::Use(Session& session, const Moment& now) {
  if (session.state.stored()) --shelf_.HibernatedLike(session);
  shelf_.table.SetActive(session, now);
}

void SessionKeeper::LetGo(Session& session, const Moment& now) {
  if (session.unlisted.has_value()) {
    shelf_.End(shelf_.TakeUnlisted(session));
    UpdateGauges();
    return;
  }
  shelf_.table.SetIdle(session, now);
  shelf_.NoteUse(session, now);
  shelf_.CountUnstored(session);
  // It may not have come back from the store.
  if (session.state.stored()) ++shelf_.HibernatedLike(session);
  shelf_.NoteSlotMayCome();
}

bool SessionKeeper::Pause(Session& session) {
  if (session.charged != Tier::kStore || session.unlisted.has_value()) {
    return false;
  }
  session.paused = true;
  shelf_.table.WatchIdle(session);
  shelf_.NoteSlotMayCome();
  return true;
}

void SessionKeeper::Advanced(Session& session, const Moment& now) {
  session.position = session.state.position();
  session.repeatable_from = session.state.repeatable_from();
  session.last_step = now;
  shelf_.CountUnstored(session);
  if (layout_.snapshots() == 0 || session.id.empty()) return;
  // So that the oldest one that is kept is about as old as what is remembered.
  const uint64_t last =
      session.kept.empty() ? 0 : session.kept.back()->position();
  const size_t apart =
      std::max<size_t>(layout_.history() / layout_.snapshots(), 1);
  session.keep_due = session.position - last >= apart;
}

absl::Status SessionKeeper::LogHealth(const Session& session) const {
  if (!IsLogged(session.durability) || !shelf_.journal->failing()) {
    return absl::OkStatus();
  }
  return shelf_.journal->Health();
}

uint64_t SessionKeeper::AddRound(std::string content, Journal::Sync sync,
                                 Journal::Written written) {
  return shelf_.journal->Add(std::move(content), sync, std::move(written));
}

void SessionKeeper::Logged(Session& session, uint64_t round,
                           absl::Duration replay) {
  shelf_.log.Note(session, round, replay);
  session.noted_use = session.last_step.steady;
  const SteadyTime now = clock_.Now();
  if (session.log.replay <= max_replay_ || now < next_snapshot_) return;
  session.log.snapshot_due = true;
  const auto bytes = static_cast<double>(archive_->bytes_at(session.position));
  next_snapshot_ = now + absl::Seconds(bytes / kSnapshotBytesPerSecond);
}

void SessionKeeper::Replayed(Session& session) {
  session.tail.reset();
  session.NoteRecords();
  session.repeatable_from = session.state.repeatable_from();
  if (archive_ == nullptr || session.stream != 0) return;
  // What follows in the log is of these numerics. Otherwise the snapshot that
  // this went on from stays: there is a way back to it. What this took counts
  // with what follows (Logged).
  session.log.broken =
      session.log.broken || archive_->IsOfOtherNumerics(session.stored_tail);
}

void SessionKeeper::Order(Session& session, Work work, uint64_t client) {
  Job job;
  job.session = &session;
  job.client = client;
  job.work = std::move(work);
  job.ordered = clock_.Now();
  job.waited = !session.state.in_memory();
  if (job.waited) {
    session.job = ++shelf_.last_job;
    shelf_.waiting.emplace(*session.job, std::move(job));
    shelf_.slot_may_come = true;
  } else {
    shelf_.jobs.Add(std::move(job));
  }
  shelf_.wake.SignalOne();
}

bool SessionKeeper::Withdraw(Session& session) {
  if (!session.job.has_value()) return false;
  shelf_.waiting.erase(*session.job);
  session.job.reset();
  return true;
}

SessionCard SessionKeeper::CardOf(const Session& session) {
  const MutexLock lock(shelf_.mutex);
  SessionCard card = session.card();
  // One that a stream made has none, and what is made of it needs one.
  if (session.stream != 0) card.ttl = shelf_.table.default_ttl();
  return card;
}

}  // namespace steadystate
