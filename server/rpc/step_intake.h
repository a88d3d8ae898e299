#ifndef STEADYSTATE_SERVER_RPC_STEP_INTAKE_H_
#define STEADYSTATE_SERVER_RPC_STEP_INTAKE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/base/clock.h"
#include "server/engine/engine.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/fair_share.h"
#include "server/rpc/step_protocol.h"

namespace steadystate {

// Takes the messages of a stream of steps apart, into submissions to the
// engine and refusals. Of a message a few steps at a time are looked at, as
// there is room for them: each becomes an arrival, with what it costs, and the
// owner takes up as many arrivals as it has room for. The others are looked at
// again later. Thread-compatible.
class StepIntake {
 public:
  // Where the steps come from.
  struct Origin {
    WriterId writer = 0;
    ClientId client = 0;
    SteadyTime deadline;
  };

  // A step that has been looked at and not been taken up. What its answer
  // repeats lies in the message.
  struct Arrival {
    StepNames names;
    size_t cost = 0;       // bytes of it and of its answer or refusal
    absl::Status refusal;  // OK: there is a submission for it
  };

  // The others outlive this object. A message has room in `inbound` as soon as
  // it is large or has to wait.
  StepIntake(std::unique_ptr<StepSource> source, const Engine& engine,
             InboundBudget& inbound, Origin origin)
      : engine_(engine),
        origin_(origin),
        message_(std::move(source)),
        charge_(inbound, origin.client) {}

  // Takes a message's bytes. INVALID_ARGUMENT: it is none, or has too many
  // steps. QUEUE_FULL: there is no room for it. REQUIRES: done().
  absl::Status Take(grpc::ByteBuffer& buffer);

  // Has everything been taken up?
  bool done() const { return message_->done(); }

  // Looks at the next steps of the message, and forgets the arrivals that there
  // were. INVALID_ARGUMENT: the next one is no step; the message is of no use
  // from there on. REQUIRES: !done().
  absl::Status Look();
  std::span<const Arrival> arrivals() const { return arrivals_; }
  // Of all of them together.
  size_t cost() const { return cost_; }

  // Bytes of the texts of steps that were looked at since BeginTexts: looking
  // makes them tokens, which takes time.
  void BeginTexts() { text_bytes_ = 0; }
  size_t text_bytes() const { return text_bytes_; }

  WriterId writer() const { return origin_.writer; }
  // May the steps have made sessions?
  bool made_sessions() const { return made_sessions_; }

  // Takes up the first arrival that has not been. Returns its submission, which
  // lacks receiver and tag, or null if it is refused.
  Submission<StepRequest>* TakeUp();

  // Of the steps that have been taken up since ClearSubmissions.
  std::span<Submission<StepRequest>> submissions() {
    return std::span(submissions_).first(submitted_);
  }
  // They have been submitted. What the engine has left in them serves the next
  // ones, but for what it has refused.
  void ClearSubmissions();

  // The message is about to wait, however small it is. QUEUE_FULL: there is no
  // room for it.
  absl::Status WillWait() { return charge_.Take(message_->bytes()); }
  // The remaining steps have to wait: drops what was parsed of them, so that
  // the message takes no more than its bytes.
  void Unread() { message_->Unread(); }
  // Forgets the message.
  void Drop();

 private:
  Arrival LookAt(size_t i, StepRequest& to);

  const Engine& engine_;
  const Origin origin_;
  const std::unique_ptr<StepSource> message_;
  MessageCharge charge_;
  std::vector<Arrival> arrivals_;
  size_t cost_ = 0;      // of arrivals_
  size_t taken_up_ = 0;  // of arrivals_
  // The first submitted_ are to be submitted; behind them lie those of other
  // arrivals, and what is kept for its memory.
  std::vector<Submission<StepRequest>> submissions_;
  size_t submitted_ = 0;
  bool made_sessions_ = false;
  size_t text_bytes_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_INTAKE_H_
