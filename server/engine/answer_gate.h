#ifndef STEADYSTATE_SERVER_ENGINE_ANSWER_GATE_H_
#define STEADYSTATE_SERVER_ENGINE_ANSWER_GATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/desk.h"
#include "server/engine/outbox.h"
#include "server/engine/task.h"
#include "server/session/journal.h"
#include "server/session/session.h"
#include "server/session/session_keeper.h"

namespace steadystate {

// How long it takes to compute again what a session has absorbed: what the
// fastest batch took whose like it was. Thread-compatible.
class ReplayCost {
 public:
  // A batch has taken so long.
  void NoteDecode(absl::Duration time);
  void NotePrefill(absl::Duration time, size_t rows);

  absl::Duration Of(const Piece& piece) const;

 private:
  absl::Duration step_ = absl::InfiniteDuration();
  absl::Duration row_ = absl::InfiniteDuration();
};

// Where answers go: into the outbox at once, or, of sessions whose log does not
// have all that was computed of them, when it has. Writes the rounds of the
// log.
//
// Confined to the compute thread. A round is open until HandOver.
class AnswerGate {
 public:
  // The outbox outlives it.
  explicit AnswerGate(Outbox& outbox) : outbox_(outbox) {}

  // Does the log have to have what such a session does?
  static bool Logs(const Session& session) {
    return IsLogged(session.durability) && !session.unlisted.has_value();
  }

  // The session has absorbed a piece of the request.
  //   inputs  as LogEntryWriter::Inputs had them
  void Absorbed(const Request& request, const Piece& piece,
                absl::string_view inputs, const Moment& now,
                SessionKeeper& keeper)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(keeper.mutex());

  // Would an answer about the session wait now?
  bool Holds(const Session& session) const {
    return Logs(session) &&
           (session.log.in_round || session.log.last > last_written_);
  }
  // The request goes on when its answer has been given. REQUIRES: Holds.
  void Hold(Request& request) { held_.going_on.push_back(&request); }
  // It has ended.
  void Add(const Session& session, std::unique_ptr<Request> request) {
    if (Holds(session)) {
      held_.ended.push_back(std::move(request));
    } else {
      outbox_.Add(std::move(request));
    }
  }

  // Whether answers wait for the round that is open.
  bool holds_any() const {
    return !held_.ended.empty() || !held_.going_on.empty();
  }
  // They are those of a decode batch; see ReturnWindow.
  void SetWindow(absl::Duration batch_time, size_t wanted) {
    held_.batch_time = batch_time;
    held_.wanted = wanted;
  }
  // Gives the round to the journal, if there is anything in it. Both outlive
  // what the journal has.
  void HandOver(Desk& desk, SessionKeeper& keeper)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk.mutex, keeper.mutex());
  // The journal has written the round, and all before it, or has failed to.
  void NoteWritten(uint64_t round) {
    last_written_ = std::max(last_written_, round);
  }

  ReplayCost& cost() { return cost_; }

 private:
  struct Change {
    Session* session = nullptr;
    absl::Duration replay;
  };

  Outbox& outbox_;
  ReplayCost cost_;
  uint64_t last_written_ = 0;

  // The open round.
  std::string content_;
  Journal::Sync sync_ = Journal::Sync::kLater;
  std::vector<Change> changes_;
  HeldAnswers held_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_ANSWER_GATE_H_
