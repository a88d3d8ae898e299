#include "server/rpc/outbound_budget.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/base/parking.h"

namespace steadystate {

OutboundBudget::OutboundBudget(FairShare share, Own own, Metrics& metrics)
    : own_each_(own.each),
      metrics_(metrics),
      share_(std::move(share)),
      own_left_(own.in_all) {}

bool OutboundBudget::Reserve(Account& account, uint64_t bytes,
                             std::shared_ptr<Waiter> waiter) {
  const MutexLock lock(mutex_);
  if (account.reserved_ >= bytes) return true;
  if (account.waiter_ != nullptr) return false;
  const uint64_t missing = bytes - account.reserved_;
  // Accounts that came to the same share before go first.
  const bool first =
      ChargeOfMore(account, missing) == 0 || !queues_.contains(account.client_);
  const bool reserved = first && TryReserve(account, missing);
  if (!reserved) {
    account.wanted_ = missing;
    account.waiter_ = std::move(waiter);
    AddWaiter(account);
  }
  Report();
  return reserved;
}

OutboundBudget::Woken OutboundBudget::Hold(Account& account, uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes == account.held_) return {};
  const uint64_t more = bytes - std::min(bytes, account.held_);
  Set(account, bytes, account.reserved_ - std::min(more, account.reserved_));
  Woken woken = WakeWaiters();
  // What it has of its own may do now.
  if (account.waiter_ != nullptr &&
      ChargeOfMore(account, account.wanted_) == 0) {
    Wake(account, woken);
  }
  Report();
  return woken;
}

OutboundBudget::Woken OutboundBudget::EndReserve(Account& account) {
  std::shared_ptr<Waiter> waiter;  // let go of after the unlock
  const MutexLock lock(mutex_);
  if (account.waiter_ == nullptr && account.reserved_ == 0) return {};
  if (account.waiter_ != nullptr) {
    RemoveWaiter(account);
    waiter = std::exchange(account.waiter_, nullptr);
  }
  Set(account, account.held_, 0);
  Woken woken = WakeWaiters();
  Report();
  return woken;
}

bool OutboundBudget::KeepsOthersWaiting(const Account& account) const {
  const MutexLock lock(mutex_);
  return account.overdraws_ &&
         queues_.size() > (queues_.contains(account.client_) ? 1u : 0u);
}

uint64_t OutboundBudget::used() const {
  const MutexLock lock(mutex_);
  return used_;
}

bool OutboundBudget::TryReserve(Account& account, uint64_t bytes) {
  const uint64_t charge = ChargeOfMore(account, bytes);
  if (charge > 0 && !share_.HasRoom(account.client_, charge)) {
    if (overdrawn_ || share_.HeldBy(account.client_) > 0) return false;
    overdrawn_ = true;
    account.overdraws_ = true;
  }
  Set(account, account.held_, account.reserved_ + bytes);
  return true;
}

uint64_t OutboundBudget::OwnOf(const Account& account) const {
  if (account.held_ + account.reserved_ > 0) return account.own_;
  return own_left_ >= own_each_ ? own_each_ : 0;
}

uint64_t OutboundBudget::Charge(const Account& account, uint64_t bytes) const {
  return bytes - std::min(bytes, OwnOf(account));
}

uint64_t OutboundBudget::ChargeOfMore(const Account& account,
                                      uint64_t bytes) const {
  const uint64_t now = account.held_ + account.reserved_;
  return Charge(account, now + bytes) - Charge(account, now);
}

void OutboundBudget::Set(Account& account, uint64_t held, uint64_t reserved) {
  const uint64_t before = account.held_ + account.reserved_;
  const uint64_t after = held + reserved;
  const uint64_t own = OwnOf(account);
  const uint64_t charged = Charge(account, before);
  const uint64_t charge = Charge(account, after);
  account.held_ = held;
  account.reserved_ = reserved;
  account.own_ = after > 0 ? own : 0;
  own_left_ += (before > 0 ? own : 0);
  own_left_ -= account.own_;
  used_ += after - before;
  if (charge >= charged) {
    share_.Take(account.client_, charge - charged);
  } else {
    share_.GiveBack(account.client_, charged - charge);
  }
  if (account.overdraws_ && charge == 0) {
    account.overdraws_ = false;
    overdrawn_ = false;
    may_overdraw_ = true;
  }
  if (share_.HeldBy(account.client_) == 0) may_overdraw_ = true;
  Reorder(account.client_);
}

void OutboundBudget::AddWaiter(Account& account) {
  ++waiting_;
  if (OwnOf(account) < account.wanted_ && account.wanted_ <= own_each_ &&
      account.held_ + account.reserved_ == 0) {
    account.turn_ = ++last_turn_;
    ownless_.emplace(account.turn_, &account);
  }
  Queue& queue = queues_[account.client_];
  queue.accounts.push_back(&account);
  if (queue.accounts.size() == 1) {
    order_.emplace(queue.need, account.client_);
    Reorder(account.client_);
  }
}

void OutboundBudget::RemoveWaiter(Account& account) {
  --waiting_;
  ownless_.erase(std::exchange(account.turn_, 0));
  const auto found = queues_.find(account.client_);
  std::deque<Account*>& accounts = found->second.accounts;
  accounts.erase(std::find(accounts.begin(), accounts.end(), &account));
  if (!accounts.empty()) {
    Reorder(account.client_);
    return;
  }
  order_.erase({found->second.need, account.client_});
  queues_.erase(found);
}

void OutboundBudget::Reorder(ClientId client) {
  const auto found = queues_.find(client);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  const uint64_t need = share_.Need(client, queue.accounts.front()->wanted_);
  if (need == queue.need) return;
  order_.erase({queue.need, client});
  queue.need = need;
  order_.emplace(need, client);
}

OutboundBudget::Woken OutboundBudget::WakeWaiters() {
  Woken woken;
  while (Account* const account = NextToWake()) {
    Wake(*account, woken);
  }
  return woken;
}

void OutboundBudget::Wake(Account& account, Woken& woken) {
  RemoveWaiter(account);
  TryReserve(account, account.wanted_);
  woken.push_back(std::exchange(account.waiter_, nullptr));
}

OutboundBudget::Account* OutboundBudget::NextToWake() {
  if (!ownless_.empty() && own_left_ >= own_each_) {
    return ownless_.begin()->second;
  }
  if (order_.empty()) return nullptr;
  const ClientId least = order_.begin()->second;
  Account* const first = queues_.find(least)->second.accounts.front();
  if (share_.HasRoom(least, ChargeOfMore(*first, first->wanted_))) return first;
  if (overdrawn_ || !std::exchange(may_overdraw_, false)) return nullptr;
  for (const auto& [need, client] : order_) {
    if (share_.HeldBy(client) == 0) {
      return queues_.find(client)->second.accounts.front();
    }
  }
  return nullptr;
}

void OutboundBudget::Report() { metrics_.SetOutbound(used_, waiting_); }

void Tell(const OutboundBudget::Woken& woken) {
  for (const auto& waiter : woken) {
    MayPark("OutboundBudget, room given");
    waiter->OnOutboundRoom();
  }
}

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
