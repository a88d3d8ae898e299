#ifndef STEADYSTATE_SERVER_ENGINE_RECEIVER_H_
#define STEADYSTATE_SERVER_ENGINE_RECEIVER_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/request.h"

namespace steadystate {

// So long a client may let what it has asked for, or a snapshot on its way in
// or out, stand still where others wait for the memory that this takes.
inline constexpr absl::Duration kMaxStandstill = absl::Seconds(30);

// What there is to say of one request of kind R since the last answer to it:
// items that have become ready, and in the end how it ended. Lent for a call;
// the receiver may take what it wants out of it.
template <typename R>
struct Answer {
  uint64_t tag = 0;                     // the receiver's name for the request
  std::span<typename R::Item> items{};  // in order
  // Of the last answer, after which nothing comes; else null.
  absl::StatusOr<typename R::Summary>* end = nullptr;
};

// Is told when a round ends: the answers that became ready together, as
// those of one batch.
class RoundReceiver {
 public:
  virtual ~RoundReceiver() = default;

  // All answers of a round in which there were some have been given.
  virtual void OnRoundEnd() {}
};

// Receives the answers to requests of kind R, of one or of many. The engine
// shares it until the last of them has been answered and that round has ended.
//
// Called on the compute thread: calls must not block, nor call back into the
// engine except for Engine::Wake.
template <typename R>
class Receiver : public RoundReceiver {
 public:
  // May the request with this tag go on? False pauses the request, which holds
  // nobody up, until Engine::Wake. Asked before each of its batches. One that
  // has no session ends with DEADLINE_EXCEEDED if it is paused for
  // kMaxStandstill and others wait for its memory.
  virtual bool Ready(uint64_t /*tag*/) { return true; }

  // One answer or more, those to one request in order.
  virtual void OnAnswers(std::span<const Answer<R>> answers) = 0;
};

// A request of kind R on its way into the engine.
template <typename R>
struct Submission {
  // Taken by Engine::Submit, which leaves an old one in its place: its memory
  // serves the caller's next request. One that is refused may stay.
  R request;
  std::shared_ptr<Receiver<R>> receiver;  // taken as well, or let go
  uint64_t tag = 0;                       // the receiver's name for it

  // What became of it.
  RequestId id = 0;
  absl::Status refusal;  // not OK: the receiver is not called
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_RECEIVER_H_
