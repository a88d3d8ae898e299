#include "server/rpc/fair_share.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {

uint64_t FairShare::Need(ClientId client, uint64_t amount) const {
  const uint64_t held = HeldBy(client);
  const uint64_t after = Beyond(held + amount);
  return parts_ * after + (after - Beyond(held));
}

bool FairShare::HasRoom(ClientId client, uint64_t amount) const {
  const uint64_t need = Need(client, amount);
  return need == 0 || (beyond_ < total_ && need <= total_ - beyond_);
}

void FairShare::Take(ClientId client, uint64_t amount) {
  if (amount == 0) return;
  uint64_t& held = clients_[client];
  beyond_ += Beyond(held + amount) - Beyond(held);
  held += amount;
  held_ += amount;
}

void FairShare::GiveBack(ClientId client, uint64_t amount) {
  if (amount == 0) return;
  const auto found = clients_.find(client);
  uint64_t& held = found->second;
  beyond_ -= Beyond(held) - Beyond(held - amount);
  held -= amount;
  held_ -= amount;
  if (held == 0) clients_.erase(found);
}

uint64_t FairShare::HeldBy(ClientId client) const {
  const auto found = clients_.find(client);
  return found == clients_.end() ? 0 : found->second;
}

absl::Status InboundBudget::Add(ClientId client, size_t bytes) {
  const MutexLock lock(mutex_);
  if (!held_.HasRoom(client, bytes)) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat("the stream's message of ", bytes,
                     " bytes has no room: ", held_.held(),
                     " bytes of messages wait to be taken up, of at most ",
                     bytes_, ", ", held_.HeldBy(client),
                     " of them on this connection, which may hold what it "
                     "leaves; try again, read answers, send smaller messages"),
        {{"value", absl::StrCat(bytes)}, {"bounds", absl::StrCat(bytes_)}});
  }
  held_.Take(client, bytes);
  used_ = held_.held();
  return absl::OkStatus();
}

void InboundBudget::Remove(ClientId client, size_t bytes) {
  Waiting woken;
  {
    const MutexLock lock(mutex_);
    held_.GiveBack(client, bytes);
    used_ = held_.held();
    if (held_.HeldBy(client) < share_) {
      const auto found = waiting_.find(client);
      if (found != waiting_.end()) {
        woken.swap(found->second);
        waiting_.erase(found);
      }
    }
  }
  for (const std::weak_ptr<WaitingStream>& weak : woken) {
    const std::shared_ptr<WaitingStream> stream = weak.lock();
    if (stream != nullptr) stream->OnRoom();
  }
}

bool InboundBudget::MayRead(ClientId client,
                            std::weak_ptr<WaitingStream> stream) {
  const MutexLock lock(mutex_);
  if (held_.HeldBy(client) < share_) return true;
  // Streams that have ended meanwhile go when there are twice as many.
  Waiting& waiting = waiting_[client];
  if (waiting.size() == waiting.capacity()) {
    std::erase_if(waiting, [](const auto& weak) { return weak.expired(); });
  }
  waiting.push_back(std::move(stream));
  return false;
}

absl::Status MessageCharge::Take(size_t bytes) {
  if (bytes_ > 0) return absl::OkStatus();
  STEADYSTATE_RETURN_IF_ERROR(budget_.Add(client_, bytes));
  bytes_ = bytes;
  return absl::OkStatus();
}

void MessageCharge::Release() {
  if (const size_t bytes = std::exchange(bytes_, 0)) {
    budget_.Remove(client_, bytes);
  }
}

}  // namespace steadystate
