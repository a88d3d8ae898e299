#include "server/session/expired_ids.h"

#include <utility>

namespace steadystate {

void ExpiredIds::Add(const SessionKey& key, absl::Time expire_time) {
  const uint64_t number = next_number_++;
  std::string name = NameOf(key);
  times_.insert_or_assign(name, Entry{expire_time, number});
  order_.push_back({std::move(name), number});
  if (order_.size() <= max_ids_) return;
  const Order& oldest = order_.front();
  const auto entry = times_.find(oldest.name);
  if (entry != times_.end() && entry->second.number == oldest.number) {
    times_.erase(entry);
  }
  order_.pop_front();
}

void ExpiredIds::Forget(const SessionKey& key) {
  if (!times_.empty()) times_.erase(NameOf(key));
}

std::optional<absl::Time> ExpiredIds::Find(const SessionKey& key) const {
  const auto entry = times_.find(NameOf(key));
  if (entry == times_.end()) return std::nullopt;
  return entry->second.expire_time;
}

}  // namespace steadystate
