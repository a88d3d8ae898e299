#include "server/rpc/step_room.h"

#include <iterator>
#include <utility>

namespace steadystate {

bool StepRoom::Reserve(size_t memory, size_t cost,
                       std::shared_ptr<OutboundBudget::Waiter> waiter) {
  if (!counted_ && memory + cost <= kSmallAnswerBytes) return true;
  counted_ = true;
  awaited_ = !budget_.Reserve(account_, cost, std::move(waiter));
  return !awaited_;
}

OutboundBudget::Woken StepRoom::Count(size_t memory, bool in_flight) {
  if (!counted_ && memory <= kSmallAnswerBytes) return {};
  counted_ = memory > 0 || in_flight || awaited_;
  OutboundBudget::Woken woken = budget_.Hold(account_, memory);
  if (in_flight || awaited_) return woken;
  OutboundBudget::Woken more = budget_.EndReserve(account_);
  std::move(more.begin(), more.end(), std::back_inserter(woken));
  return woken;
}

OutboundBudget::Woken StepRoom::Release() {
  awaited_ = false;
  if (!counted_) return {};
  return budget_.EndReserve(account_);
}

}  // namespace steadystate
