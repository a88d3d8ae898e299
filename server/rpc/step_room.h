#ifndef STEADYSTATE_SERVER_RPC_STEP_ROOM_H_
#define STEADYSTATE_SERVER_RPC_STEP_ROOM_H_

#include <cstddef>
#include <memory>

#include "server/engine/request.h"
#include "server/rpc/outbound_budget.h"

namespace steadystate {

// The room that a stream's answers have in the budget of all calls. Says
// nothing to the budget while the stream has little: most have one step at a
// time. Thread-compatible.
class StepRoom {
 public:
  // `budget` outlives this object. No answers wait when it is destroyed.
  StepRoom(OutboundBudget& budget, ClientId client)
      : budget_(budget), account_(client) {}

  // Whether there is room for answers of `cost` bytes in all, those of requests
  // in flight included, beside `memory` that wait. If not, `waiter` is told
  // when there is.
  bool Reserve(size_t memory, size_t cost,
               std::shared_ptr<OutboundBudget::Waiter> waiter);

  // A waiter has not been told yet.
  bool awaited() const { return awaited_; }
  // It has been.
  void Came() { awaited_ = false; }

  // Answers that wait take `memory` now, and others are being made or not.
  // Returns who finds room because of it.
  [[nodiscard]] OutboundBudget::Woken Count(size_t memory, bool in_flight);

  // Waits no more, and reserves nothing any more; the same.
  [[nodiscard]] OutboundBudget::Woken Release();

 private:
  OutboundBudget& budget_;
  OutboundBudget::Account account_;
  bool counted_ = false;  // the account may hold something
  bool awaited_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_ROOM_H_
