#ifndef STEADYSTATE_SERVER_ENGINE_TASK_H_
#define STEADYSTATE_SERVER_ENGINE_TASK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"
#include "server/model/mixer.h"
#include "server/model/sampler.h"
#include "server/session/session_memory.h"
#include "server/session/session_state.h"

namespace steadystate {

class Round;
struct Session;

// One layer of a bidirectional pass (Model::ForwardLayer) over some of its
// rows.
struct LayerPart {
  size_t layer = 0;
  Pass pass = Pass::kAbsorb;
  uint64_t position = 0;      // of the first row
  float* residual = nullptr;  // f32[rows, D]
  bool first = false;         // the inputs come in here, Model::Embed
  bool last = false;          // the hidden vectors come out, Model::Finish
};

// What a task wants of its next batch. The spans stay valid until the task is
// advanced.
struct Piece {
  // Consecutive inputs to absorb: tokens or embeddings f32[rows, D]. None of
  // either: only the logits of the session's pending hidden vector are wanted.
  std::span<const int32_t> tokens;
  std::span<const float> embeddings;
  size_t rows = 0;

  // Rows [logits_begin, logits_end) whose logits are wanted.
  size_t logits_begin = 0;
  size_t logits_end = 0;

  // How the absorbed rows are counted.
  TokenKind kind = TokenKind::kPrompt;

  // Set: not a pass through all layers. The session's state is that of the
  // layers' sums; its position does not move. No logits then.
  std::optional<LayerPart> part{};

  bool pending_only() const { return rows == 0; }
  size_t logits_rows() const {
    return pending_only() ? 1 : logits_end - logits_begin;
  }
  // Rows whose computation is complete with this piece.
  size_t completed_rows() const {
    return part.has_value() && !part->last ? 0 : rows;
  }
};

// What came of a piece. The hidden vectors stay until the batch's answers have
// been handed over.
struct PieceResult {
  SessionState& session;          // after the piece
  std::span<const float> hidden;  // f32[Piece::completed_rows(), D]
  std::span<const float> logits;  // f32[Piece::logits_rows(), vocab_size]
  bool hidden_stays = true;       // else they stay for this call only
  bool logits_stay = false;       // the same
  Sampler& sampler;               // for this call only
};

// When things happened to a request; what has not happened is InfinitePast.
struct RequestTimes {
  SteadyTime submitted;
  SteadyTime first_batch = SteadyTime::InfinitePast();
  SteadyTime last_batch_end = SteadyTime::InfinitePast();
};

// Inputs that a request wants to have absorbed: tokens or embeddings, f32[n,
// D]. Borrows both.
class Inputs {
 public:
  Inputs(std::span<const int32_t> tokens, std::span<const float> embeddings,
         size_t hidden_size)
      : tokens_(tokens), embeddings_(embeddings), hidden_size_(hidden_size) {}

  // Tokens, or vectors.
  size_t rows() const {
    return tokens_.empty() ? embeddings_.size() / hidden_size_ : tokens_.size();
  }

  // Makes rows [first, first + rows) what `piece` takes in.
  void Set(size_t first, size_t rows, Piece& piece) const;

  // What they hold in memory.
  uint64_t bytes() const {
    return tokens_.size() * sizeof(int32_t) +
           embeddings_.size() * sizeof(float);
  }

 private:
  std::span<const int32_t> tokens_;
  std::span<const float> embeddings_;
  size_t hidden_size_;
};

// CONTEXT_CAP_REACHED if the session cannot absorb `rows` more.
absl::Status CheckContextCap(const SessionState& session, uint64_t rows);

// REPLAY_UNAVAILABLE: the first request was absorbed, up to the record's end,
// and what is named cannot be told again.
absl::Status ReplayUnavailable(const RequestRecord& record,
                               absl::string_view what);

// One request as a small state machine that the compute thread drives:
//
//   Begin, then as long as Ready: Next, (the model runs,) Advance, Answer.
//   The last Answer, with the request's end, may come at any time.
//
// Where it IsWork, Work takes the place of Ready, Next and Advance.
//
// Calls never overlap. Receivers are called by Ready alone, and by the round to
// which Answer adds: the engine uses neither under a lock.
class Task {
 public:
  virtual ~Task() = default;

  // What its request says of itself.
  virtual const RequestBase& base() const = 0;
  // Does it run on a fresh state, which ends with it, and on no session?
  virtual bool OnFreshState() const { return false; }

  // The request's turn has come. An error refuses it; nothing has changed then.
  virtual absl::Status Begin(const SessionState& session) = 0;

  // In place of Begin: the request is a repeat, and this is the record of the
  // first, with the same digest; an unfinished one ends at the session's
  // position. Takes up what is left to absorb, if anything is. An error refuses
  // it: REPLAY_UNAVAILABLE if the answer is not known any more, or as Begin.
  virtual absl::Status Resume(const RequestRecord& record,
                              const SessionState& session) = 0;
  // Of the request; REQUIRES: it is keyed().
  virtual RequestDigest digest() const = 0;

  // True if there is nothing to compute now, but Work for another thread to do.
  virtual bool IsWork() const { return false; }
  // Is there more than work to do? Such a request has begun with its work.
  virtual bool ComputesAfterWork() const { return false; }
  // Called by the thread that has the session's state meanwhile. An error is
  // the request's outcome.
  virtual absl::Status Work(Session&) { return absl::OkStatus(); }

  // May the next piece be computed now? False pauses the request until it is
  // woken.
  virtual bool Ready() = 0;

  // The next piece; the same until Advance. How an input is cut into pieces
  // depends on the request alone, never on load.
  // REQUIRES: Begin succeeded, !done().
  virtual Piece Next() const = 0;

  // How many inputs before the piece that Next tells are undone with the piece,
  // where its output is not finite.
  virtual uint64_t UndoneBeforePiece() const { return 0; }

  // The session has absorbed the piece. Runs on any thread of the pool, at the
  // same time as other tasks' Advance: no callbacks here.
  virtual void Advance(const PieceResult& result) = 0;

  // Nothing is left to compute, or nothing more can be: see Outcome.
  virtual bool done() const = 0;

  // Of a task that is done: OK, or why it could not go on.
  virtual absl::Status Outcome() const { return absl::OkStatus(); }

  // There are items that have not been handed over.
  virtual bool HasItems() const = 0;

  // Adds to `round` the items that have not been handed over and, unless `end`
  // is null, the request's end with that outcome. The round borrows both until
  // its HandOver; call TakeBack or Forget after that. REQUIRES: the task is
  // done if `end` is OK.
  virtual void Answer(const absl::Status* end, const RequestTimes& times,
                      Round& round) = 0;
  virtual void TakeBack() = 0;

  // Once begun, neither cancel nor deadline stops it.
  virtual bool AllOrNothing() const { return false; }
  // How many inputs such a one absorbs.
  virtual uint64_t rows() const { return 0; }

  // Bytes of input that the request holds in memory.
  // Does what it has done stay done, whatever becomes of the session's log?
  virtual bool StandsAlone() const { return false; }
  // Can a repeat take it up while it runs, since what it has answered can be
  // told again from the session's history?
  virtual bool CanBeTakenUp() const { return false; }
  virtual uint64_t input_bytes() const = 0;

  // Forgets the request and its answers, to serve another one of its kind;
  // keeps memory for that as far as it is little. REQUIRES: the last Answer has
  // been given, or nothing has begun.
  virtual void Forget() = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_TASK_H_
