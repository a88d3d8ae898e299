#include "server/session/log_recovery.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/base/binary.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/log_entry.h"
#include "server/session/session_card.h"

namespace steadystate {
namespace {

// Changes that are written together.
constexpr size_t kTailBytesAtOnce = size_t{4} << 20;
constexpr size_t kChangesAtOnce = 4096;

// Reads the rounds of the log, and says what they make of the sessions.
class LogReader {
 public:
  LogReader(SessionStore& store, RecoveredSessions& recovered)
      : store_(store), recovered_(recovered) {}

  // Takes up what the store has without the log.
  absl::Status ReadSessions(SessionArchive& archive);
  absl::Status ReadRounds();
  // Brings it into the store.
  absl::Status Write(SessionArchive& archive);

 private:
  struct Found {
    StoredSession session;
    bool is_new = false;    // the log has created it
    bool has_more = false;  // the log has more than the tail
    bool was_used = false;  // as the log says, and nothing else
    std::string bodies;     // that are more
  };

  void TakeEntry(uint64_t round, uint64_t numerics, const LogEntry& entry);
  void Create(uint64_t round, const LogEntry& entry);
  void Absorb(uint64_t round, uint64_t numerics, absl::string_view body,
              Found& found);
  static void NoteUse(uint64_t round, absl::string_view body, Found& found);
  absl::Status WriteChanges();
  absl::StatusOr<std::string> WholeTail(const SessionUid& uid,
                                        const Found& found);
  void SeeRound(uint64_t round) {
    recovered_.next_round = std::max(recovered_.next_round, round + 1);
  }

  SessionStore& store_;
  RecoveredSessions& recovered_;
  absl::flat_hash_map<SessionUid, Found> found_;
  std::vector<SessionUid> removed_;
  size_t rounds_ = 0;
};

absl::Status LogReader::ReadSessions(SessionArchive& archive) {
  return archive.ForEach([this](StoredSession session) {
    SeeRound(session.round);
    if (session.tail.has_value()) SeeRound(session.tail->through_round);
    const SessionUid uid = session.card.uid;
    found_[uid].session = std::move(session);
  });
}

absl::Status LogReader::ReadRounds() {
  return store_.ForEachRound(
      0, [this](uint64_t round, absl::string_view content) {
        SeeRound(round);
        ++rounds_;
        const bool whole = ForEachEntry(
            content, [this, round](uint64_t numerics, const LogEntry& entry) {
              TakeEntry(round, numerics, entry);
            });
        if (!whole) {
          LogError("a round of the log is not as it was written",
                   {{"round", absl::StrCat(round)}});
        }
      });
}

void LogReader::TakeEntry(uint64_t round, uint64_t numerics,
                          const LogEntry& entry) {
  if (entry.kind == LogEntryKind::kCreated) {
    Create(round, entry);
    return;
  }
  const auto found = found_.find(entry.uid);
  // What was created in a round that is not there, or removed before.
  if (found == found_.end()) return;
  if (entry.kind == LogEntryKind::kAbsorbed) {
    Absorb(round, numerics, entry.body, found->second);
  } else if (entry.kind == LogEntryKind::kUsed) {
    NoteUse(round, entry.body, found->second);
  } else if (entry.kind == LogEntryKind::kRemoved) {
    removed_.push_back(entry.uid);
    found_.erase(found);
  }
}

void LogReader::Create(uint64_t round, const LogEntry& entry) {
  BinaryReader from(entry.body);
  StoredSession session;
  session.durability = static_cast<Durability>(from.Number<uint8_t>());
  const absl::Status read = ReadCard(from, session.card);
  if (!read.ok() || found_.contains(entry.uid)) return;
  session.round = round;
  found_[entry.uid] = {.session = std::move(session),
                       .is_new = true,
                       .has_more = false,
                       .was_used = false,
                       .bodies = {}};
}

// The latest round that is in what the store has of it beside the log.
uint64_t CoveredRound(const StoredSession& session) {
  return session.tail.has_value() ? session.tail->through_round : session.round;
}

void LogReader::NoteUse(uint64_t round, absl::string_view body, Found& found) {
  const std::optional<absl::Time> time = UseOf(body);
  if (!time.has_value() || round <= CoveredRound(found.session)) return;
  found.session.card.last_step_time = *time;
  found.was_used = true;
}

void LogReader::Absorb(uint64_t round, uint64_t numerics,
                       absl::string_view body, Found& found) {
  StoredSession& session = found.session;
  std::optional<StoredTail>& tail = session.tail;
  if (round <= CoveredRound(session)) return;
  const std::optional<AbsorbedSpan> span = SpanOf(body);
  const uint64_t end = tail.has_value() ? tail->end : session.position;
  if (!tail.has_value()) {
    tail = StoredTail{.end = end, .numerics = numerics};
  } else if (tail->numerics != numerics) {
    tail->numerics = 0;
  }
  tail->through_round = round;
  tail->remade = false;
  session.taken_back = false;  // whoever asked for that has been told
  found.has_more = true;
  if (!span.has_value() || span->begin != end) {
    tail->damaged = true;
    return;
  }
  tail->end = end + span->rows;
  if (span->embeddings) session.repeatable_from = tail->end;
  session.card.last_step_time = span->time;
  LogTail::Append(body, found.bodies);
}

absl::Status LogReader::Write(SessionArchive& archive) {
  size_t replayed = 0;
  for (auto& [uid, found] : found_) {
    if (found.is_new) {
      StoredSession created = found.session;
      created.tail.reset();
      STEADYSTATE_RETURN_IF_ERROR(archive.PutNew(created));
    }
    if (found.has_more) ++replayed;
  }
  MayPark("LogReader::Write, created");
  STEADYSTATE_RETURN_IF_ERROR(WriteChanges());
  MayPark("LogReader::Write, changes");
  if (!removed_.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(store_.Remove(removed_));
  }
  if (rounds_ > 0) {
    LogInfo("log read", {{"rounds", absl::StrCat(rounds_)},
                         {"sessions", absl::StrCat(replayed)}});
  }
  recovered_.sessions.reserve(found_.size());
  for (auto& [uid, found] : found_) {
    recovered_.sessions.push_back(std::move(found.session));
  }
  STEADYSTATE_RETURN_IF_ERROR(store_.Sync());
  MayPark("LogReader::Write, synced");
  return store_.DropRounds(std::numeric_limits<uint64_t>::max());
}

absl::Status LogReader::WriteChanges() {
  std::vector<StoredChange> changes;
  size_t bytes = 0;
  for (auto& [uid, found] : found_) {
    if (!found.has_more && (found.is_new || !found.was_used)) continue;
    StoredChange& change =
        changes.emplace_back(StoredChange{.session = found.session});
    if (found.has_more) {
      STEADYSTATE_ASSIGN_OR_RETURN(change.tail, WholeTail(uid, found));
      bytes += change.tail->size();
    }
    if (bytes < kTailBytesAtOnce && changes.size() < kChangesAtOnce) continue;
    STEADYSTATE_RETURN_IF_ERROR(store_.PutChanges(changes));
    changes.clear();
    bytes = 0;
  }
  return changes.empty() ? absl::OkStatus() : store_.PutChanges(changes);
}

// What the store has of it, and what the log has after that.
absl::StatusOr<std::string> LogReader::WholeTail(const SessionUid& uid,
                                                 const Found& found) {
  std::string before;
  if (!found.is_new) {
    absl::StatusOr<StoredState> stored = store_.Read(uid);
    // Where a snapshot is lost that is said when somebody asks for it.
    if (!stored.ok() && !absl::IsDataLoss(stored.status())) {
      return stored.status();
    }
    if (stored.ok()) before = std::move(stored->tail);
  }
  return before + found.bodies;
}

}  // namespace

absl::StatusOr<RecoveredSessions> RecoverSessions(SessionArchive& archive) {
  RecoveredSessions recovered;
  LogReader reader(archive.store(), recovered);
  STEADYSTATE_RETURN_IF_ERROR(reader.ReadSessions(archive));
  STEADYSTATE_RETURN_IF_ERROR(reader.ReadRounds());
  STEADYSTATE_RETURN_IF_ERROR(reader.Write(archive));
  return recovered;
}

namespace {

// Adds the piece if the session goes on with it, and not beyond `until`.
bool AddPiece(absl::string_view body, uint64_t until, RecoveredSession& to) {
  const std::optional<AbsorbedSpan> span = SpanOf(body);
  if (!span.has_value() || span->begin != to.end ||
      to.end + span->rows > until) {
    return false;
  }
  to.end += span->rows;
  if (span->embeddings) to.repeatable_from = to.end;
  LogTail::Append(body, to.tail);
  return true;
}

}  // namespace

absl::StatusOr<RecoveredSession> RecoverSession(SessionArchive& archive,
                                                const SessionUid& uid,
                                                RoundSpan rounds,
                                                uint64_t until) {
  absl::StatusOr<SessionArchive::Kept> kept = archive.Read(uid);
  if (!kept.ok() && !absl::IsDataLoss(kept.status())) return kept.status();
  RecoveredSession found;
  found.known = kept.ok();
  if (kept.ok()) {
    found.position = found.end = found.repeatable_from = kept->position;
    found.other_numerics = kept->other_numerics;
    found.snapshot = std::move(kept->snapshot);
    BinaryReader left(kept->tail);
    while (left.left() > 0 && AddPiece(left.Text(), until, found)) continue;
  }
  if (rounds.last < rounds.first) return found;
  STEADYSTATE_RETURN_IF_ERROR(archive.store().ForEachRound(
      rounds.first, [&](uint64_t round, absl::string_view content) {
        if (round < rounds.first || round > rounds.last) return;
        ForEachEntry(content, [&](uint64_t, const LogEntry& entry) {
          if (entry.kind != LogEntryKind::kAbsorbed || entry.uid != uid) return;
          found.has_rounds =
              AddPiece(entry.body, until, found) || found.has_rounds;
        });
      }));
  return found;
}

}  // namespace steadystate
