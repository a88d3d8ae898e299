#include "server/engine/answer_gate.h"

#include <algorithm>

#include "server/session/log_entry.h"

namespace steadystate {
namespace {

// No batch is faster, whatever a clock says.
constexpr absl::Duration kFastestBatch = absl::Microseconds(10);

}  // namespace

void ReplayCost::NoteDecode(absl::Duration time) {
  step_ = std::min(step_, std::max(time, kFastestBatch));
}

void ReplayCost::NotePrefill(absl::Duration time, size_t rows) {
  if (rows > 0) row_ = std::min(row_, time / static_cast<int64_t>(rows));
}

absl::Duration ReplayCost::Of(const Piece& piece) const {
  // Where only one of the two has been seen, that is the best guess.
  const absl::Duration row = std::min(row_, step_);
  if (piece.rows > 1) return row * static_cast<int64_t>(piece.rows);
  return step_ == absl::InfiniteDuration() ? row : step_;
}

void AnswerGate::Absorbed(const Request& request, const Piece& piece,
                          absl::string_view inputs, const Moment& now,
                          SessionKeeper& keeper) {
  Session& session = *request.lane->session;
  if (!Logs(session) || piece.part.has_value()) return;
  const SessionState& state = session.state;
  const RequestBase& base = request.task->base();
  LogEntryWriter::Piece absorbed = {
      .begin = state.position() - piece.rows,
      .time = now.wall,
      .rows = piece.rows,
      .inputs = inputs,
      .unfinished_text = state.unfinished_text(),
      .drawn = piece.kind == TokenKind::kGenerated};
  if (base.keyed()) {
    absorbed.record =
        state.records().Find(base.request_id, *base.expected_position);
  }
  LogEntryWriter(content_, keeper.numerics_tag())
      .Absorbed(session.uid, absorbed);
  if (session.durability == Durability::kSync) sync_ = Journal::Sync::kFirst;
  session.log.in_round = true;
  changes_.push_back({&session, cost_.Of(piece)});
}

void AnswerGate::HandOver(Desk& desk, SessionKeeper& keeper) {
  if (content_.empty() && !holds_any()) return;
  const auto answers =
      std::make_shared<HeldAnswers>(std::exchange(held_, HeldAnswers()));
  ++desk.with_journal;
  const uint64_t round =
      keeper.AddRound(std::exchange(content_, std::string()), sync_,
                      [&desk, answers](absl::Status status) {
                        desk.NoteWritten(answers, std::move(status));
                      });
  answers->round = round;  // before the desk's lock is let go of
  for (const Change& change : changes_) {
    change.session->log.in_round = false;
    keeper.Logged(*change.session, round, change.replay);
  }
  changes_.clear();
  sync_ = Journal::Sync::kLater;
}

}  // namespace steadystate
