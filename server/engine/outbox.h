#ifndef STEADYSTATE_SERVER_ENGINE_OUTBOX_H_
#define STEADYSTATE_SERVER_ENGINE_OUTBOX_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "server/engine/backlog.h"
#include "server/engine/round.h"

namespace steadystate {

// Collects requests whose answers are to be sent when no lock is held: those
// that have ended, and those that have items and go on. Confined to the compute
// thread.
class Outbox {
 public:
  // The request goes on; it stays until Send. REQUIRES: not added before.
  void Add(Request& request) { going_on_.push_back(&request); }
  // The request has ended, with Request::end.
  void Add(std::unique_ptr<Request> request) {
    ended_.push_back(std::move(request));
  }

  // Answers all that was added, as one round: calls receivers. Gives back to
  // their pools the requests that have ended.
  void Send();

  // How many have ended and been answered since the last call.
  size_t TakeCount() { return std::exchange(answered_, 0); }

 private:
  void GiveBack();

  std::vector<Request*> going_on_;
  std::vector<std::unique_ptr<Request>> ended_;
  Round round_;
  size_t answered_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_OUTBOX_H_
