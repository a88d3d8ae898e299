#include "server/rpc/inbound_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace steadystate {

absl::Status InboundBudget::Add(ClientId client, size_t bytes) {
  const MutexLock lock(mutex_);
  const size_t used = used_;
  if (used + bytes > bytes_) {
    return MakeError(
        ErrorReason::kQueueFull,
        absl::StrCat(
            "the stream's message of ", bytes, " bytes has no room: ", used,
            " bytes of messages wait to be taken up, of at most ", bytes_,
            "; try again, read answers, send smaller messages"),
        {{"value", absl::StrCat(bytes)}, {"bounds", absl::StrCat(bytes_)}});
  }
  used_ += bytes;
  clients_[client].bytes += bytes;
  return absl::OkStatus();
}

void InboundBudget::Remove(ClientId client, size_t bytes) {
  std::vector<std::weak_ptr<WaitingStream>> woken;
  {
    const MutexLock lock(mutex_);
    used_ -= bytes;
    const auto found = clients_.find(client);
    found->second.bytes -= bytes;
    if (found->second.bytes < share_) woken.swap(found->second.waiting);
    if (found->second.bytes == 0) clients_.erase(found);
  }
  for (const std::weak_ptr<WaitingStream>& weak : woken) {
    const std::shared_ptr<WaitingStream> stream = weak.lock();
    if (stream != nullptr) stream->OnRoom();
  }
}

bool InboundBudget::MayRead(ClientId client,
                            std::weak_ptr<WaitingStream> stream) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(client);
  if (found == clients_.end() || found->second.bytes < share_) return true;
  // Streams that have ended meanwhile go when there are twice as many.
  auto& waiting = found->second.waiting;
  if (waiting.size() == waiting.capacity()) {
    std::erase_if(waiting, [](const auto& weak) { return weak.expired(); });
  }
  waiting.push_back(std::move(stream));
  return false;
}

}  // namespace steadystate
