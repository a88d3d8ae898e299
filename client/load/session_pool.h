#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/load/random.h"
#include "client/load/request_plan.h"
#include "client/load/tally.h"
#include "client/mutex.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// What becomes of a session after a request.
enum class SessionFate : uint8_t {
  kGoesOn,   // the next request may begin
  kBroken,   // somebody has to look after it first: see LoadSession::Mending
  kRetired,  // is of no more use
};

class LoadSession;

// A request that is to begin now.
struct Turn {
  LoadSession* session = nullptr;
  LoadTime intended;    // when it was to be sent
  uint64_t number = 0;  // in the order in which requests begin
};

// One session and the request that it is working on. Belongs to whoever has it
// at the moment: the pool while it is free, its carrier while it is busy.
class LoadSession {
 public:
  // What a failed request has left unknown.
  enum class Doubt : uint8_t {
    kNone,
    kPosition,  // where the session is; the request has absorbed nothing
    kAbsorbed,  // that, and how much the request has absorbed
  };

  // What has to happen before a broken session can go on.
  struct Mending {
    absl::Duration rest;   // pass
    bool replace = false;  // take a new session in its place
  };

  // `plan` outlives this object.
  LoadSession(size_t index, const RequestPlan& plan, const v1::Model& model)
      : index_(index),
        plan_(plan),
        vocab_size_(model.vocab_size()),
        context_cap_(model.context_cap()),
        random_(plan.options().seed, index) {}

  size_t index() const { return index_; }
  const std::string& name() const { return name_; }
  // Tokens absorbed, as far as is known.
  uint64_t position() const { return position_; }
  Doubt doubt() const { return doubt_; }
  // True if it had requests and none of them got an answer of any kind. May be
  // asked at any time.
  bool unheard() const { return asked_ && !answered_; }
  // True if the server has the session, as far as is known.
  bool exists() const { return exists_; }
  const Mending& mending() const { return mending_; }

  // Makes it stand for another session of the server, which is new.
  void Replace(const std::string& name);

  // Begins a request. REQUIRES: the turn is of this session.
  void Begin(const Turn& turn, Tally& tally);

  // What the request asks for.
  const RequestShape& shape() const { return shape_; }

  // Takes the next tokens of the request's prompt, `most` at most, which are to
  // be sent.
  std::vector<int32_t> TakePrompt(uint64_t most);
  // True if there are more.
  bool has_prompt() const { return prompt_left_ > 0; }

  // Tokens were sent that are not answered yet.
  void Sent(uint64_t tokens) { unanswered_ = tokens; }

  // The server says where the session is, having absorbed the tokens sent and
  // `generated` ones of its own.
  void Absorbed(uint64_t position, uint64_t generated, Tally& tally);

  // Drawn tokens arrived, together.
  void Received(uint64_t tokens, LoadTime now, const Window& window,
                Tally& tally);

  // From when the request was handed to its connection to its first token.
  // REQUIRES: it has one.
  std::chrono::nanoseconds first_token_after() const {
    return first_token_ - begun_;
  }

  // True if the request has all of its tokens.
  bool complete() const { return drawn_ >= shape_.generate_tokens; }

  // The request ended as it was meant to.
  SessionFate Complete(LoadTime now, const Window& window, Tally& tally);

  // The tester ends it, since the run is over.
  void Cut(LoadTime now, const Window& window, Tally& tally);

  // The same, by giving up a call: what it came to has to be asked for.
  void CutShort(LoadTime now, const Window& window, Tally& tally);

  // It failed. `all_or_nothing`: it absorbs what was sent as a whole or, if it
  // is refused at whatever time, not at all.
  SessionFate Fail(const absl::Status& status, bool all_or_nothing,
                   const Window& window, Tally& tally);

  // Ends the doubt: the session is at `position`, or that cannot be known.
  void Reconcile(uint64_t position, Tally& tally);
  void GiveUpReconciling(Tally& tally);

  // The session was deleted.
  void Gone() { exists_ = false; }

 private:
  // Counts what a completed request took.
  void CountTimes(LoadTime now, Tally& tally) const;

  const size_t index_;
  const RequestPlan& plan_;
  const uint32_t vocab_size_;
  const uint64_t context_cap_;  // 0: none
  std::string name_;
  Random random_;
  uint64_t position_ = 0;
  uint64_t unanswered_ = 0;  // tokens
  Doubt doubt_ = Doubt::kNone;
  bool exists_ = false;
  std::atomic<bool> asked_ = false;
  std::atomic<bool> answered_ = false;
  Mending mending_;
  // Of the request.
  RequestShape shape_;
  uint64_t prompt_left_ = 0;  // tokens not sent
  uint64_t drawn_ = 0;
  LoadTime intended_;
  LoadTime begun_;
  LoadTime first_token_;
  LoadTime last_token_;
};

// Decides which session begins which request, and when. In a closed loop each
// session begins its next request when the last one has ended. In an open loop
// requests arrive at their own times; one that finds no free session waits in
// a bounded backlog, and keeps the time at which it was to be sent.
//
// Thread-safe: requests arrive on the tester's thread and end on gRPC's.
class SessionPool {
 public:
  // Requests that may wait. As many at 100,000 requests/s are ten seconds.
  static constexpr size_t kMaxBacklog = size_t{1} << 20;

  // How things stand.
  struct Counts {
    size_t alive = 0;    // sessions that are not retired
    size_t busy = 0;     // of them, those with a request under way
    size_t backlog = 0;  // requests that wait
  };

  explicit SessionPool(bool open_loop, size_t max_backlog = kMaxBacklog)
      : open_loop_(open_loop), max_backlog_(max_backlog) {}

  // Adds a session, or gives back a broken one. The request that it begins now,
  // if any. The session must outlive the pool's use of it.
  std::optional<Turn> Add(LoadSession& session, LoadTime now);
  std::optional<Turn> GiveBack(LoadSession& session, LoadTime now);
  // A broken session cannot be mended.
  void Retire();

  // Open loop: a request arrives. The one that begins now, if any.
  std::optional<Turn> Arrive(LoadTime intended);

  // A request ended. The one that its session begins now, if any.
  std::optional<Turn> Finish(LoadSession& session, SessionFate fate,
                             LoadTime now);

  // A session that needs mending, or nullptr.
  LoadSession* TakeBroken();
  // Waits until there is one, or the time has come. False once mending is over.
  bool WaitForBroken(LoadTime time);
  void StopMending();

  // No new requests: what waits may still begin, unless `cut`. Returns when the
  // requests that were so cut off were to be sent.
  std::deque<LoadTime> Stop(bool cut);
  // True if requests under way are to end at the next token.
  bool cut() const { return cut_; }

  Counts counts() const;
  // The most requests that were under way at once.
  size_t peak_busy() const;
  // The largest backlog so far, and how many requests it had no room for or
  // were still in it when it was cut.
  size_t peak_backlog() const;
  uint64_t unsent() const;

  // Waits until all sessions are retired, nothing is under way after Stop, or
  // the time has come.
  void WaitUntil(LoadTime time);

 private:
  Turn TurnOf(LoadSession& session, LoadTime intended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Turn> BeginNext(LoadSession& session, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Quiet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool open_loop_;
  const size_t max_backlog_;
  std::atomic<bool> cut_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  CondVar broken_changed_;
  std::deque<LoadSession*> free_ ABSL_GUARDED_BY(mutex_);
  std::deque<LoadSession*> broken_ ABSL_GUARDED_BY(mutex_);
  std::deque<LoadTime> backlog_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);  // backlog is not kept
  uint64_t begun_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t peak_busy_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t peak_backlog_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool mending_over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_
