#include "server/rpc/outbound_budget.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "server/base/parking.h"

namespace steadystate {
namespace {

// The trimmer hears of no less.
constexpr int64_t kReportedBytes = int64_t{1} << 20;

}  // namespace

OutboundBudget::OutboundBudget(FairShare share, uint64_t own_bytes,
                               Metrics& metrics, MemoryTrimmer& trimmer)
    : own_bytes_(own_bytes),
      metrics_(metrics),
      trimmer_(trimmer),
      share_(std::move(share)) {}

bool OutboundBudget::Reserve(Account& account, uint64_t bytes,
                             std::shared_ptr<Waiter> waiter) {
  const MutexLock lock(mutex_);
  if (account.reserved_ >= bytes) return true;
  if (account.waiter_ != nullptr) return false;
  const uint64_t missing = bytes - account.reserved_;
  // Who came before it to the same share goes first.
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

void OutboundBudget::Set(Account& account, uint64_t held, uint64_t reserved) {
  const uint64_t before = account.held_ + account.reserved_;
  const uint64_t after = held + reserved;
  account.held_ = held;
  account.reserved_ = reserved;
  used_ += after - before;
  if (Charge(after) >= Charge(before)) {
    share_.Take(account.client_, Charge(after) - Charge(before));
  } else {
    share_.GiveBack(account.client_, Charge(before) - Charge(after));
  }
  if (account.overdraws_ && Charge(after) == 0) {
    account.overdraws_ = false;
    overdrawn_ = false;
    may_overdraw_ = true;
  }
  if (share_.HeldBy(account.client_) == 0) may_overdraw_ = true;
  Reorder(account.client_);
}

void OutboundBudget::AddWaiter(Account& account) {
  ++waiting_;
  Queue& queue = queues_[account.client_];
  queue.accounts.push_back(&account);
  if (queue.accounts.size() == 1) {
    order_.emplace(queue.need, account.client_);
    Reorder(account.client_);
  }
}

void OutboundBudget::RemoveWaiter(Account& account) {
  --waiting_;
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

void OutboundBudget::Report() {
  metrics_.SetOutbound(used_, waiting_);
  const auto more = static_cast<int64_t>(used_ - reported_);
  if (std::abs(more) < kReportedBytes) return;
  trimmer_.Use(more);
  reported_ = used_;
}

void Tell(const OutboundBudget::Woken& woken) {
  for (const auto& waiter : woken) {
    MayPark("OutboundBudget, room given");
    waiter->OnOutboundRoom();
  }
}

}  // namespace steadystate
