#ifndef STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
#define STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate {

// Remembers which sessions have expired, up to a bound; forgets those first
// that expired first. Thread-compatible.
class ExpiredIds {
 public:
  explicit ExpiredIds(size_t max_ids) : max_ids_(max_ids) {}

  void Add(const std::string& id, absl::Time expire_time);

  // The id is in use again.
  void Forget(absl::string_view id) { times_.erase(id); }

  // When the session expired; nothing if it did not or that was forgotten.
  std::optional<absl::Time> Find(absl::string_view id) const;

 private:
  struct Entry {
    absl::Time expire_time;
    uint64_t number = 0;
  };
  struct Order {
    std::string id;
    uint64_t number = 0;  // of an entry; an old one if the id came back
  };

  size_t max_ids_;
  uint64_t next_number_ = 0;
  absl::flat_hash_map<std::string, Entry> times_;
  std::deque<Order> order_;  // oldest first; at most max_ids_
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
