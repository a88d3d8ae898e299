#ifndef STEADYSTATE_SERVER_ENGINE_TURNS_H_
#define STEADYSTATE_SERVER_ENGINE_TURNS_H_

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/answer_gate.h"
#include "server/engine/batch_runner.h"
#include "server/engine/desk.h"
#include "server/engine/outbox.h"
#include "server/engine/request.h"
#include "server/engine/scheduler.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/session/session_keeper.h"

namespace steadystate {

// The requests that compute together.
struct Batch {
  std::vector<BatchItem> items;
  std::vector<Request*> requests;  // whose each item is
  // What each item takes in, as the log has it, up to where; nothing of those
  // that are not logged.
  std::string inputs;
  std::vector<size_t> input_ends;

  void Clear() {
    items.clear();
    requests.clear();
    inputs.clear();
    input_ends.clear();
  }
};

// Takes up what callers noted at the desk, and decides for each request whether
// it begins, goes on, waits or ends. What takes long and is no computing is
// ordered of the sessions' keeper, and comes back as a note.
//
// Confined to the compute thread.
class Turns {
 public:
  // All of them outlive it. `max_rows`: of one batch; `chunk_rows`: of one
  // session in a batch.
  Turns(Desk& desk, const Model& model, SessionKeeper& keeper, Outbox& outbox,
        const Clock& clock, Metrics& metrics, size_t max_rows,
        size_t chunk_rows)
      : desk_(desk),
        model_(model),
        keeper_(keeper),
        outbox_(outbox),
        clock_(clock),
        metrics_(metrics),
        chunk_rows_(chunk_rows),
        scheduler_(max_rows),
        gate_(outbox) {}

  // Waits for something to do, takes it up and puts what has ended into the
  // outbox. False when the engine is to stop.
  //   prefilling  a batch of prompts has been left between two layers
  bool TakeNotes(bool prefilling);

  // Asks the receivers of requests that could go on whether they are ready;
  // those that are wait for a place in a batch.
  void AskReceivers();

  // The phase's next batch, in `batch`; false if nothing is ready.
  bool FormBatch(BatchPhase phase, Batch& batch);

  // True if anything but the running batch of prompts has work to do.
  bool OthersWait() const {
    return desk_.noted || !continuing_.empty() ||
           scheduler_.waiting(BatchPhase::kDecode);
  }
  // Only what has begun is carried through.
  bool finishing() const { return finishing_; }

  // The sessions have absorbed what the batch has computed, in `time`: puts
  // what that answers into the outbox, or gives it to the journal.
  void Commit(BatchPhase phase, const Batch& batch, const BatchTimes& times,
              absl::Duration time);
  // Where the answers to a decode batch wait for the log, waits for that a
  // little: before those whom it answers are told, the few that have come
  // meanwhile would make a batch of their own, and from then on there would be
  // two where one would do. Not while prompts can use the time. True if there
  // is something in the outbox.
  bool AwaitWritten(bool prefilling);
  // Puts answers into the outbox that the log has by now. May be called while a
  // batch runs; costs next to nothing where there are none.
  bool TakeWritten();

  // Answers whatever has not been, when what is with the keeper is back.
  void EndEverything();

 private:
  bool EndSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  bool WaitFor(size_t requests, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  void WaitForReturns(bool prefilling)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  void WaitForWork(bool prefilling) ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  std::span<const RequestId> Taken(std::vector<RequestId>& ids);
  void AnswerWritten()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void GiveHeld(HeldAnswers& answers, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void Continue(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void TakeReturned()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void TakeJoining()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void GoOn(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void Resume(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void EndPause(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(keeper_.mutex());
  void EndStandstills()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  bool LetJoin(Request& first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void EndAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void EndStreams() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void EndEarly() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void End(Request& request, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  bool EndsSession(const Request& request, const absl::Status& status) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  using Answers = std::vector<std::unique_ptr<Request>>;
  void EndBehind(const Request& last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void AnswerWhenGone(Session& session, Answers answers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void AnswerEnders(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void AnswerEnder(Lane& lane, std::unique_ptr<Request> ender)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void HandOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void StartTurn(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  bool Prepare(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  absl::Status IfSound(const Request& request, absl::Status begun)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  bool ForgetsWayBack(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(keeper_.mutex());
  void Undo(const BatchItem& item, Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void NoteBegun(Request& request, BatchPhase phase, SteadyTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  static bool StartsAnew(const Request& request, const SessionState& state);
  absl::Status Repeat(const Request& request, const SessionState& state);
  void Order(Request& request, SessionKeeper::Work work)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  bool TakeBack(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void TakeBackAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex);
  void AskOrOrder(Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void Ask(Request& request);
  void NotePaused();
  void Settle(Request& request, absl::Status status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void CommitItem(const BatchItem& item, Request& request,
                  absl::string_view inputs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  void CommitReplay(const BatchItem& item, Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  absl::Status EndReplay(Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(desk_.mutex, keeper_.mutex());
  Piece NextOf(const Request& request) const;

  Desk& desk_;
  const Model& model_;
  SessionKeeper& keeper_;
  Outbox& outbox_;
  const Clock& clock_;
  Metrics& metrics_;
  const size_t chunk_rows_;
  Scheduler scheduler_;
  AnswerGate gate_;
  ReturnWindow returns_;
  std::vector<RequestId> continuing_;  // have had a batch and want another
  std::vector<Request*> asking_;
  // Idle; what has ended them is in the round that is open. And those who have.
  std::vector<std::pair<Session*, Answers>> ending_;
  // Those paused, since when, whose sessions' states have to stay in memory.
  std::set<std::pair<SteadyTime, RequestId>> standing_;
  std::vector<RequestId> taken_;  // from a list of notes
  absl::Duration
      hold_;    // how long AwaitWritten may take; zero: no answer waits
  Moment now_;  // when its state was last looked at
  bool finishing_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_TURNS_H_
