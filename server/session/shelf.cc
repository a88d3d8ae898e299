#include "server/session/shelf.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "server/session/journal.h"
#include "server/session/log_entry.h"
#include "server/session/session_past.h"

namespace steadystate {
namespace {

// Sessions that are looked at under one lock when they may have expired: some
// microseconds of work.
constexpr size_t kExpiredAtOnce = 16;

// After a kill an idle session expires by so much earlier than was told: the
// lesser of this time and a part of its ttl. One that was in use, by as much
// and the time between two looks at it.
constexpr absl::Duration kUsesApart = absl::Seconds(1);

}  // namespace

Shelf::Shelf(SessionTable sessions, const SessionLayout& layout_of_all,
             StatePool& slots, const SessionArchive* store,
             const SessionLimits& limits_of_all, Metrics& counters)
    : layout(layout_of_all),
      piece_rows(limits_of_all.piece_rows),
      prefix_numerics(limits_of_all.prefix_numerics),
      max_prefixes(limits_of_all.max_prefixes),
      table(std::move(sessions)),
      charges(limits_of_all.memory_bytes, limits_of_all.store_bytes),
      removals(table),
      pool(slots),
      archive(store),
      stores(store != nullptr),
      metrics(counters),
      max_checkpoints(limits_of_all.max_checkpoints.value_or(std::max<size_t>(
          charges.most(listed_tier()) /
              ChargeOf(listed_tier(), layout.context_cap()) / 4,
          1))) {}

void Shelf::End(std::unique_ptr<Session> session) {
  DropHeld(*session);
  if (std::exchange(session->unstored, false)) --unstored;
  SetUnusable(*session, Unusable::kNo);
  charges.GiveBack(session->charged, session->charge);
  log.Forget(*session);
  ended.push_back(std::move(session));
  slot_may_come = true;
  wake.SignalOne();
}

void Shelf::DropHeld(Session& session) {
  if (session.held == nullptr) return;
  if (session.held->copy != nullptr) End(std::move(session.held->copy));
  session.held.reset();
}

bool Shelf::RemoveStored(const Session& session, Why why, Removed& removed) {
  // What is being written will be there, and the log has a word of it.
  if (!session.stored.has_value() && !session.moving &&
      !session.may_be_stored && session.log.last == 0) {
    return false;
  }
  const bool named = why != Why::kOver && !session.id.empty();
  removals.Add(
      {.uid = session.uid,
       .name = named ? NameOf(session.key()) : std::string(),
       .keeps_name = why == Why::kDeleted,
       .sync = session.durability == Durability::kSync,
       .logged = IsLogged(session.durability),
       .needs = session.log.listed ? session.log.first : Removals::kNoRound},
      std::exchange(removed, nullptr));
  wake.SignalOne();
  return true;
}

// What is absorbed says so itself; but a repeat, a fork or an export of a
// session put its expiry off as well.
void Shelf::NoteUse(Session& session, const Moment& now) {
  if (journal == nullptr || !IsLogged(session.durability) ||
      session.ttl == absl::InfiniteDuration() || session.stream != 0 ||
      session.unlisted.has_value() || journal->failing()) {
    return;
  }
  // A snapshot will say so, or the round that is open.
  if (session.log.broken || session.log.in_round ||
      session.health == Health::kNotFinite) {
    return;
  }
  if (now.steady - session.noted_use <
      std::min(kUsesApart, session.ttl / SessionTable::kLooksInTtl)) {
    return;
  }
  std::string content;
  LogEntryWriter(content, archive->numerics_tag()).Used(session.uid, now.wall);
  log.Note(session,
           journal->Add(std::move(content), Journal::Sync::kLater, nullptr),
           absl::ZeroDuration());
  session.noted_use = now.steady;
}

// Whoever finds that sessions have expired takes a few of them out, so that it
// counts exactly; the thread takes the rest.
void Shelf::EndExpired(const Moment& now) {
  if (table.NextExpiry() > now.steady) return;
  std::vector<Session*> in_use;
  for (auto& session : table.TakeExpired(now, kExpiredAtOnce, in_use)) {
    EndTaken(std::move(session), now.wall);
  }
  for (Session* const session : in_use) NoteUse(*session, now);
  UpdateGauges();
}

// Nobody is refused for the memory of sessions that have expired, however many
// others stand before them. Between two calls others get the lock.
bool Shelf::MoreExpiryMayMakeRoom(uint64_t bytes, const Moment& now) {
  const MutexLock lock(mutex);
  EndExpired(now);
  return bytes > charges.left(listed_tier()) &&
         table.NextExpiry() <= now.steady;
}

void Shelf::EndIfExpired(const SessionKey& key, const Moment& now) {
  std::unique_ptr<Session> session = table.TakeIfExpired(key, now);
  if (session == nullptr) return;
  EndTaken(std::move(session), now.wall);
  UpdateGauges();
}

void Shelf::EndTaken(std::unique_ptr<Session> expired, absl::Time now) {
  if (KindOfId(expired->id) == SessionKind::kSession) {
    metrics.SessionEnded(SessionEnd::kExpired,
                         expired->expire_time() - expired->created.steady,
                         expired->position);
  }
  Note(SessionEventKind::kExpired, *expired, now);
  if (expired->state.stored()) --HibernatedLike(*expired);
  RemoveStored(*expired, Why::kOver);
  End(std::move(expired));
}

void Shelf::Note(SessionEventKind kind, const Session& session, absl::Time now,
                 absl::string_view parent) {
  if (session.unlisted.has_value() ||
      KindOfId(session.id) != SessionKind::kSession) {
    return;
  }
  metrics.SessionEventHappened(kind);
  events.Add({.kind = kind,
              .owner = session.owner,
              .id = session.id,
              .uid = session.uid,
              .parent = std::string(parent),
              .position = session.position,
              .time = now});
}

bool Shelf::EndOldestPrefix() {
  Session* const oldest = table.OldestPrefix();
  if (oldest == nullptr) return false;
  if (oldest->state.stored()) --HibernatedLike(*oldest);
  RemoveStored(*oldest, Why::kOver);
  End(table.Remove(*oldest));
  return true;
}

void Shelf::EndPrefixesAbove(size_t most) {
  while (table.kept_prefixes() > most) EndOldestPrefix();
}

bool Shelf::MakeRoomForPrefix(uint64_t bytes) {
  if (max_prefixes == 0) return false;
  EndPrefixesAbove(max_prefixes - 1);
  while (bytes > charges.left(listed_tier())) {
    if (!EndOldestPrefix()) return false;
  }
  return true;
}

Session& Shelf::KeepUnlisted(std::unique_ptr<Session> session) {
  if (std::exchange(session->unstored, false)) --unstored;
  session->unlisted = unlisted.size();
  unlisted.push_back(std::move(session));
  return *unlisted.back();
}

std::unique_ptr<Session> Shelf::TakeUnlisted(Session& session) {
  std::unique_ptr<Session>& place = unlisted[*session.unlisted];
  std::unique_ptr<Session> taken = std::move(place);
  if (&place != &unlisted.back()) {
    place = std::move(unlisted.back());
    place->unlisted = taken->unlisted;
  }
  unlisted.pop_back();
  taken->unlisted.reset();
  return taken;
}

void Shelf::CountUnstored(Session& session) {
  const bool lacks = stores && !session.unlisted.has_value() &&
                     session.position > 0 && session.LacksStoring();
  if (lacks == session.unstored) return;
  session.unstored = lacks;
  lacks ? ++unstored : --unstored;
}

bool Shelf::SetUnusable(Session& session, Unusable why) {
  if (session.unusable == why) return false;
  --unusable[static_cast<size_t>(session.unusable)];
  ++unusable[static_cast<size_t>(why)];
  session.unusable = why;
  metrics.SetUnusable(
      unusable[static_cast<size_t>(Unusable::kOtherNumerics)],
      unusable[static_cast<size_t>(Unusable::kSnapshotCorrupt)]);
  return true;
}

void Shelf::UpdateGauges() const {
  std::array<size_t, kSessionKinds> others{};  // than those hibernated
  for (size_t kind = 0; kind < kSessionKinds; ++kind) {
    others[kind] =
        table.count(static_cast<SessionKind>(kind)).all - hibernated[kind];
  }
  constexpr auto kSession = static_cast<size_t>(SessionKind::kSession);
  constexpr auto kCheckpoint = static_cast<size_t>(SessionKind::kCheckpoint);
  constexpr auto kKeptPrompt = static_cast<size_t>(SessionKind::kKeptPrompt);
  const size_t active = table.count(SessionKind::kSession).active;
  metrics.SetSessions(active, others[kSession] - active, hibernated[kSession]);
  metrics.SetCheckpoints(others[kCheckpoint], hibernated[kCheckpoint]);
  metrics.SetKeptPrompts(others[kKeptPrompt], hibernated[kKeptPrompt]);
  if (stores) metrics.SetDrainEstimate(archive->TimeFor(unstored));
  // With a store, what is in use; else what is charged, whose slots may come
  // later, or be on their way back.
  const uint64_t in_memory =
      stores ? pool.lent_bytes() : charges.used(Tier::kMemory);
  metrics.SetStateBytes(in_memory, pool.budget_bytes(), layout.charge_bytes());
}

}  // namespace steadystate
