#ifndef STEADYSTATE_SERVER_ENGINE_OUTBOX_H_
#define STEADYSTATE_SERVER_ENGINE_OUTBOX_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/backlog.h"
#include "server/engine/request.h"
#include "server/engine/step_pool.h"

namespace steadystate {

// Requests that have ended, and are to be answered when no lock is held.
// Confined to the compute thread.
class Outbox {
 public:
  // Where answered steps go; it outlives the outbox.
  explicit Outbox(StepPool& steps) : steps_(steps) {}

  void Add(std::unique_ptr<Request> request, absl::Status status) {
    answers_.push_back({std::move(request), std::move(status)});
  }

  // Answers all that was added: calls receivers.
  void Send();

  // How many have been answered since the last call.
  size_t TakeCount() { return std::exchange(answered_, 0); }

 private:
  struct Answer {
    std::unique_ptr<Request> request;
    absl::Status status;
  };

  void SendSteps();

  StepPool& steps_;
  std::vector<Answer> answers_;
  std::vector<StepAnswer> step_answers_;   // of one sink
  std::vector<StepSink*> answered_sinks_;  // in this round
  std::vector<std::unique_ptr<Request>> answered_steps_;
  size_t answered_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_OUTBOX_H_
