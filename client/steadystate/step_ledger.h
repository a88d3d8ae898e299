#ifndef STEADYSTATE_CLIENT_STEADYSTATE_STEP_LEDGER_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_STEP_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "steadystate/step_stream.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate::client {

// The sessions of a stream: where each of them stands, and which of its steps
// have no answer. Of the library's own use; not published. Thread-compatible.
class StepLedger {
 public:
  // The bounds are those of the options.
  explicit StepLedger(const StepStreamOptions& options);

  // As StepStream's methods of these names.
  size_t AddSession(absl::string_view name, uint64_t position);
  absl::Status PlaceSession(size_t number, absl::string_view name,
                            uint64_t position);
  absl::Status RemoveSession(size_t number);

  // Whether a step may be sent. Errors as StepStream::Send has them.
  absl::Status CheckSend(size_t number, const Step& step) const;

  // Makes `request` the next step of a session, which travels in the message of
  // number `batch`. REQUIRES: CheckSend allows it.
  void Send(size_t number, const Step& step, uint64_t tag, uint64_t batch,
            v1::StreamStepRequest::Request& request);

  // Moves what the server answered to `answer`. False, and `answer` is as it
  // was, if nobody asked for it.
  bool Answer(v1::StreamStepResponse::Result& result, StepAnswer& answer);

  // The caller has `count` answers, and may send as many more.
  void Release(size_t count) { in_flight_ -= count; }

  // Steps that are not released: without an answer, or with one that waits.
  size_t in_flight() const { return in_flight_; }

  // Where a session stands, if the messages before number `batches` have left.
  // REQUIRES: AddSession returned `number`.
  SessionStanding Standing(size_t number, uint64_t batches) const;

  // Of sessions with steps that have no answer, in the order of their numbers.
  std::vector<SessionStanding> Unanswered(uint64_t batches) const;

 private:
  struct Pending {
    UnansweredStep step;
    uint64_t batch = 0;
  };

  struct Session {
    std::string name;
    uint64_t position = 0;       // acknowledged
    uint64_t sent_position = 0;  // once all that is pending is carried out
    absl::InlinedVector<Pending, 1> pending;  // oldest first
    bool used = false;                        // the number is
  };

  absl::Status CheckNumber(size_t number) const;
  // CheckNumber; and that nothing of the session is pending.
  absl::Status CheckIdle(size_t number) const;

  const std::string client_id_;
  const size_t max_in_flight_;
  const size_t max_in_flight_per_session_;
  std::vector<Session> sessions_;  // by number
  std::vector<size_t> free_;       // numbers that are not used
  size_t in_flight_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_STEP_LEDGER_H_
