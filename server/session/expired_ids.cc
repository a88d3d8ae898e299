#include "server/session/expired_ids.h"

namespace steadystate {

void ExpiredIds::Add(const std::string& id, absl::Time expire_time) {
  const uint64_t number = next_number_++;
  times_.insert_or_assign(id, Entry{expire_time, number});
  order_.push_back({id, number});
  if (order_.size() <= max_ids_) return;
  const Order& oldest = order_.front();
  const auto entry = times_.find(oldest.id);
  if (entry != times_.end() && entry->second.number == oldest.number) {
    times_.erase(entry);
  }
  order_.pop_front();
}

std::optional<absl::Time> ExpiredIds::Find(absl::string_view id) const {
  const auto entry = times_.find(id);
  if (entry == times_.end()) return std::nullopt;
  return entry->second.expire_time;
}

}  // namespace steadystate
