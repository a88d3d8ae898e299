#include "server/session/session_prefixes.h"

#include <string>
#include <utility>
#include <vector>

#include "server/base/parking.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// Sessions that are looked for under one lock: some microseconds of work.
constexpr size_t kProbesAtOnce = 64;

}  // namespace

absl::StatusOr<SessionPrefixes::Reused> SessionPrefixes::Reuse(
    Session& session, absl::string_view owner, std::span<const int32_t> prompt,
    const std::function<void(SessionState&)>& begun) {
  Reused reused;
  const Found found = Find(owner, prompt, session.state.context_cap());
  if (found.tokens > 0 && Restore(found, owner, session).ok()) {
    session.state.records().Clear();
    begun(session.state);
    STEADYSTATE_RETURN_IF_ERROR(Begun(session));
    reused = {.result = PrefixReuse::kReused, .tokens = found.tokens};
  } else if (prompt.size() < shelf_.piece_rows) {
    reused.result = PrefixReuse::kTooShort;
  }
  metrics_.PrefixAsked(reused.result, reused.tokens);
  return reused;
}

SessionPrefixes::Found SessionPrefixes::Find(absl::string_view owner,
                                             std::span<const int32_t> prompt,
                                             uint64_t context_cap) const {
  const std::vector<PrefixDigest> digests = PrefixesOf(OriginOf(owner), prompt);
  for (size_t left = digests.size(); left > 0;) {
    const MutexLock lock(shelf_.mutex);
    for (size_t looks = 0; looks < kProbesAtOnce && left > 0; ++looks, --left) {
      const size_t tokens =
          left == digests.size() ? prompt.size() : left * shelf_.piece_rows;
      if (context_cap != 0 && tokens > context_cap) continue;
      Session* const session = shelf_.table.FindPrefix(digests[left - 1]);
      if (session == nullptr) continue;
      if (PrefixOfId(session->id).has_value()) {
        session->last_step = clock_.Read();
      }
      return {.id = session->id, .tokens = tokens};
    }
  }
  return {};
}

absl::Status SessionPrefixes::Restore(const Found& found,
                                      absl::string_view owner,
                                      Session& session) {
  STEADYSTATE_ASSIGN_OR_RETURN(const WayBack way,
                               past_.FindCheckpoint({found.id, owner}));
  absl::Status status = past_.Restore(way, session.state);
  const SessionState& state = session.state;
  if (status.ok() && (state.position() != found.tokens || way.other_numerics)) {
    status = absl::DataLossError("it is not what the prompt begins with");
  }
  if (!status.ok() && session.state.has_slot()) session.state.Reset();
  return status;
}

// The session's state is no more that of a new one.
absl::Status SessionPrefixes::Begun(Session& session) {
  bool logged = false;
  {
    const MutexLock lock(shelf_.mutex);
    session.position = session.state.position();
    session.repeatable_from = session.state.repeatable_from();
    session.NoteRecords();
    // Of one that has been deleted nothing may return.
    logged = IsLogged(session.durability) && !session.unlisted.has_value();
    // It can be deleted before it is written.
    session.moving = logged;
  }
  MayPark("SessionPrefixes::Begun");
  if (!logged) return absl::OkStatus();
  absl::Status stored = saver_.Save(session);
  if (stored.ok()) stored = archive_->Sync();
  if (!stored.ok()) session.state.Reset();
  const MutexLock lock(shelf_.mutex);
  session.moving = false;
  if (stored.ok()) return stored;
  session.position = session.repeatable_from = 0;
  session.recorded = RecordedKeys();
  // It may be there all the same: nothing more counts before it is put right.
  session.stored.reset();
  session.snapshot.reset();
  shelf_.log.Break(session);
  return stored;
}

void SessionPrefixes::Keep(Session& session, std::span<const int32_t> prompt) {
  const std::vector<PrefixDigest> digests =
      PrefixesOf(OriginOf(session.owner), prompt);
  if (digests.empty() || session.state.position() != prompt.size() ||
      !saver_.health().Examine(session)) {
    return;
  }
  const PrefixDigest& prefix = digests.back();
  const Tier tier = shelf_.listed_tier();
  const uint64_t charge = shelf_.ChargeOfKept(tier, session.state.context_cap(),
                                              session.state.position());
  {
    const MutexLock lock(shelf_.mutex);
    if (session.other_numerics || shelf_.table.FindPrefix(prefix) != nullptr ||
        !shelf_.MakeRoomForPrefix(charge)) {
      return;
    }
    shelf_.charges.Take(tier, charge);
  }
  MayPark("SessionPrefixes::Keep");
  auto copy = copy_of_(session.state);
  if (copy.ok()) (*copy)->records().Clear();
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  if (!copy.ok()) {
    shelf_.charges.GiveBack(tier, charge);
    return;
  }
  SessionOptions options;
  options.owner = session.owner;
  options.id = PrefixId(prefix);
  Session& kept = shelf_.table.Add(std::move(options), now);
  Shelf::NoteCharge(kept, tier, charge);
  kept.durability = shelf_.stores ? Durability::kShutdown : Durability::kNone;
  kept.position = (*copy)->position();
  kept.repeatable_from = (*copy)->repeatable_from();
  kept.state.Follow(*std::move(copy));
  if (shelf_.stores) shelf_.table.WatchIdle(kept);
  shelf_.table.SetPrefix(kept, prefix);
  shelf_.CountUnstored(kept);
  shelf_.UpdateGauges();
}

}  // namespace steadystate
