#include "server/session/session_past.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/log_entry.h"
#include "server/session/session_health.h"
#include "server/session/session_id.h"
#include "server/session/session_limits.h"
#include "server/session/session_memory.h"

namespace steadystate {
namespace {

// Where the piece ends that begins there, or `to` if that is before.
uint64_t EndOfPiece(const TokenHistory& history, uint64_t begin, uint64_t to) {
  uint64_t end = begin + 1;
  while (end < to && !history.BeginsPiece(end)) ++end;
  return end;
}

// Inputs from here up to `position` are remembered and can be absorbed again;
// the embeddings of later ones do not matter.
uint64_t RepeatableFrom(const SessionState& state, uint64_t position) {
  if (state.position() == 0) return 0;
  if (state.repeatable_from() <= position) return state.repeatable_from();
  const TokenHistory history = state.history();
  uint64_t from = position;
  for (int32_t input = 0; from > state.history_begin(); --from) {
    history.Copy(from - 1, std::span(&input, 1));
    if (input == TokenHistory::kEmbedding) break;
  }
  return from;
}

// Was a request cut there, and has not gone on since, as far as is remembered?
bool WasCutAt(const SessionState& state, uint64_t position) {
  if (state.position() == 0) return false;
  const std::vector<RequestRecord> records = state.records().All();
  return std::any_of(records.begin(), records.end(),
                     [position](const RequestRecord& record) {
                       return !record.finished && record.end == position;
                     });
}

absl::Status OutOfReach(const Session& session, uint64_t position,
                        uint64_t earliest) {
  const uint64_t now = session.state.position();
  std::string why;
  if (position > now) {
    why = absl::StrCat(
        " and has not been at ", position,
        earliest < now ? absl::StrCat(": choose a position from ", earliest,
                                      " to ", now, earliest > 0 ? ", or 0" : "")
                       : ": of earlier positions it can go back to 0 alone");
  } else if (earliest < now) {
    why = absl::StrCat(" and cannot go back to ", position,
                       ": choose a position from ", earliest,
                       " on, or 0; of what may be wanted again keep a "
                       "checkpoint beforehand");
  } else {
    why = absl::StrCat(" and cannot go back to ", position,
                       ", only to 0: no earlier state of it is kept "
                       "(--snapshots, --store), nor all that it has absorbed "
                       "(--history); of what may be wanted again keep a "
                       "checkpoint beforehand");
  }
  return MakeError(
      ErrorReason::kPositionOutOfReach,
      absl::StrCat("session '", session.id, "' is at position ", now, why),
      {{"position", absl::StrCat(now)},
       {"earliest_position", absl::StrCat(earliest)}});
}

}  // namespace

std::string PiecesBetween(const SessionState& state, uint64_t from, uint64_t to,
                          absl::Time time, absl::string_view unfinished_text) {
  const TokenHistory history = state.history();
  const std::vector<RequestRecord> records = state.records().All();
  std::string round;
  LogEntryWriter writer(round, 0);
  std::vector<int32_t> tokens;
  std::string inputs;
  for (uint64_t begin = from; begin < to;) {
    const uint64_t end = EndOfPiece(history, begin, to);
    tokens.resize(static_cast<size_t>(end - begin));
    history.Copy(begin, tokens);
    inputs.clear();
    LogEntryWriter::Inputs(tokens, {}, inputs);
    LogEntryWriter::Piece piece = {.begin = begin,
                                   .time = time,
                                   .rows = tokens.size(),
                                   .inputs = inputs,
                                   .drawn = history.IsDrawn(begin)};
    for (const RequestRecord& record : records) {
      if (record.end == end) piece.record = record;
    }
    if (end == to) piece.unfinished_text = unfinished_text;
    writer.Absorbed(SessionUid{}, piece);
    begin = end;
  }
  std::string pieces;
  ForEachEntry(round, [&](uint64_t, const LogEntry& entry) {
    LogTail::Append(entry.body, pieces);
  });
  return pieces;
}

absl::StatusOr<WayBack> SessionPast::Find(Session& session, uint64_t position,
                                          absl::string_view unfinished_text) {
  const SessionState& state = session.state;
  if (position == state.position()) {
    const MutexLock lock(shelf_.mutex);
    if (session.health == Health::kNotFinite) {
      return StateNotFinite(session, /*restored=*/false);
    }
    return WayBack{.begin = position, .end = position, .stays = true};
  }
  STEADYSTATE_ASSIGN_OR_RETURN(WayBack way,
                               FindEarlier(session, position, unfinished_text));
  if (!way.stored) return way;
  const absl::StatusOr<uint64_t> begin = ReadSnapshot(session.uid, way);
  if (!begin.ok()) {
    // The store does not keep what somebody deletes meanwhile.
    const MutexLock lock(shelf_.mutex);
    return session.unlisted.has_value() ? DeletedMeanwhile(session.id)
                                        : begin.status();
  }
  if (*begin == way.begin) return way;
  // A write that failed has come to pass all the same.
  {
    const MutexLock lock(shelf_.mutex);
    session.snapshot = *begin;
  }
  return Find(session, position, unfinished_text);
}

absl::StatusOr<WayBack> SessionPast::FindEarlier(
    const Session& session, uint64_t position,
    absl::string_view unfinished_text) {
  const SessionState& state = session.state;
  const uint64_t from = RepeatableFrom(state, position);
  WayBack way = {.begin = 0, .end = position};
  bool found = from == 0 || position == 0;
  uint64_t earliest = 0;
  {
    const MutexLock lock(shelf_.mutex);
    earliest = session.EarliestPosition(layout_.history());
    way.repeatable_from = std::min(session.repeatable_from, from);
    way.other_numerics = session.other_numerics;
    const auto serves = [&](uint64_t at) {
      return at <= position && (at >= from || at == position) &&
             (!found || at > way.begin);
    };
    for (const auto& kept : session.kept) {
      if (!serves(kept->position())) continue;
      found = true;
      way.begin = kept->position();
      way.kept = kept.get();
    }
    const auto stored_at = session.FiniteSnapshot();
    if (stored_at.has_value() && serves(*stored_at)) {
      found = true;
      way.stored = *stored_at > 0;
      way.kept = nullptr;
      way.begin = *stored_at;
    }
  }
  if (position > state.position() || !found) {
    return OutOfReach(session, position, earliest);
  }
  way.drops_unfinished = !WasCutAt(state, way.begin);
  if (way.begin == 0) {
    way.repeatable_from = 0;
    way.other_numerics = false;  // all of it is computed again, here
  }
  if (way.begin < position) {
    way.pieces = std::make_shared<const std::string>(PiecesBetween(
        state, way.begin, position, clock_.Read().wall, unfinished_text));
  }
  return way;
}

absl::Status SessionPast::Complete(const Session& session, WayBack& way) {
  if (!way.stored) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const uint64_t begin,
                               ReadSnapshot(session.uid, way));
  // As in Find; here nothing else is known.
  return begin == way.begin ? absl::OkStatus()
                            : OutOfReach(session, way.end, begin);
}

absl::StatusOr<WayBack> SessionPast::FindCheckpoint(const SessionKey& key) {
  WayBack way = {.begin = 0, .end = 0, .elsewhere = true};
  std::optional<SessionUid> stored;
  {
    const MutexLock lock(shelf_.mutex);
    STEADYSTATE_ASSIGN_OR_RETURN(const Session* const checkpoint,
                                 shelf_.table.Find(key, clock_.Read()));
    way.begin = way.end = checkpoint->position;
    way.repeatable_from = checkpoint->repeatable_from;
    way.other_numerics = checkpoint->other_numerics;
    way.drops_unfinished = checkpoint->snapshot_drops;
    // Nobody but this thread touches its state.
    if (checkpoint->state.stored()) {
      stored = checkpoint->uid;
    } else if (way.begin > 0) {
      way.kept = checkpoint->state.origin() != nullptr
                     ? checkpoint->state.origin()
                     : &checkpoint->state;
    }
  }
  if (stored.has_value() && way.begin > 0) {
    const absl::Status read = ReadSnapshot(*stored, way).status();
    if (!read.ok()) saver_.NoteUnusable(key, *stored, read);
    STEADYSTATE_RETURN_IF_ERROR(read);
  }
  return way;
}

// -> its position.
absl::StatusOr<uint64_t> SessionPast::ReadSnapshot(const SessionUid& uid,
                                                   WayBack& way) {
  STEADYSTATE_ASSIGN_OR_RETURN(SessionArchive::Kept kept, archive_->Read(uid));
  way.snapshot = std::move(kept.snapshot);
  way.stored = false;
  way.other_numerics = way.other_numerics || kept.other_numerics;
  return kept.position;
}

absl::Status SessionPast::Restore(const WayBack& way, SessionState& to) const {
  if (way.kept != nullptr) {
    to.CopyFrom(*way.kept);
  } else if (!way.snapshot.empty()) {
    STEADYSTATE_RETURN_IF_ERROR(archive_->Restore(way.snapshot, to));
  }
  // What such a request did up to the way's end is told by the pieces.
  if (way.drops_unfinished && way.begin > 0) to.records().DropUnfinished();
  return absl::OkStatus();
}

absl::Status SessionPast::Rewind(Session& session, const WayBack& way) {
  if (way.stays) {
    const MutexLock lock(shelf_.mutex);
    session.health = Health::kSound;
    return absl::OkStatus();
  }
  STEADYSTATE_RETURN_IF_ERROR(
      CheckCapReaches(session.state.context_cap(), way.end));
  absl::Status stored = Store(session, way);
  if (stored.ok() && IsLogged(session.durability)) stored = archive_->Sync();
  if (!stored.ok()) {
    // It may be there all the same: nothing more counts before it is put right.
    const MutexLock lock(shelf_.mutex);
    session.stored.reset();
    // The snapshot is the same then, if the way began with what was there.
    if (way.elsewhere || session.snapshot != way.begin) {
      session.snapshot.reset();
    }
    if (IsLogged(session.durability)) shelf_.log.Break(session);
    return stored;
  }
  MayPark("SessionPast::Rewind, stored");
  // It has none if it has absorbed nothing, and then that is what it needs.
  if (session.state.has_slot()) session.state.Reset();
  session.tail.reset();
  STEADYSTATE_RETURN_IF_ERROR(Restore(way, session.state));
  if (way.pieces != nullptr) {
    session.tail = std::make_unique<LogTail>(way.pieces, way.end);
  }
  // Snapshots of other processes have not been looked at.
  const bool finite = saver_.health().IsStateFinite(session.state);
  std::vector<std::shared_ptr<SessionState>> later;
  const MutexLock lock(shelf_.mutex);
  session.position = way.end;
  session.health = !finite      ? Health::kNotFinite
                   : way.untold ? Health::kTakenBack
                                : Health::kSound;
  session.snapshot_finite = session.snapshot_finite && finite;
  session.undo.reset();
  shelf_.DropHeld(session);
  session.repeatable_from = way.repeatable_from;
  session.other_numerics = way.other_numerics;
  while (!session.kept.empty() &&
         (way.elsewhere || session.kept.back()->position() > way.end)) {
    later.push_back(std::move(session.kept.back()));
    session.kept.pop_back();
  }
  if (session.tail == nullptr) {
    session.NoteRecords();
    session.repeatable_from =
        way.end == 0 ? 0 : session.state.repeatable_from();
  }
  shelf_.Note(SessionEventKind::kRewound, session, clock_.WallNow());
  return finite ? absl::OkStatus()
                : StateNotFinite(session, /*restored=*/false);
}

absl::Status SessionPast::Store(Session& session, const WayBack& way) {
  if (archive_ == nullptr || session.stream != 0) return absl::OkStatus();
  {
    const MutexLock lock(shelf_.mutex);
    // Of one that has been deleted nothing may return; one that is deleted from
    // now on is removed from the store afterwards.
    if (session.unlisted.has_value()) return DeletedMeanwhile(session.id);
    session.may_be_stored = true;
  }
  SessionSaver::Snapshot form = saver_.Describe(session);
  // It is in use: as with what it absorbs, its ttl begins anew. No later word
  // of that is written down.
  const Moment now = clock_.Read();
  form.last_step = form.used = now.steady;
  form.form.card.last_step_time = now.wall;
  form.form.position = way.begin;
  form.form.repeatable_from = way.repeatable_from;
  form.form.other_numerics = way.other_numerics;
  form.form.taken_back = way.untold;
  form.form.drops_unfinished = way.drops_unfinished;
  if (way.pieces != nullptr) {
    form.form.tail = {.end = way.end,
                      .numerics = archive_->numerics_tag(),
                      .through_round = form.form.round,
                      .remade = true};
    form.tail = *way.pieces;
  }
  form.bytes = way.kept != nullptr    ? archive_->Write(form.form, *way.kept)
               : way.snapshot.empty() ? archive_->WriteNew(form.form)
                                      : way.snapshot;
  return saver_.Put(session, form);
}

}  // namespace steadystate
