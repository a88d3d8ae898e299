#ifndef STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
#define STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/session/session_info.h"

namespace steadystate {

// Remembers which sessions have expired, up to a bound; forgets those first
// that expired first. Thread-compatible.
class ExpiredIds {
 public:
  explicit ExpiredIds(size_t max_ids) : max_ids_(max_ids) {}

  void Add(const SessionKey& key, absl::Time expire_time);

  // The key is in use again.
  void Forget(const SessionKey& key);

  // When the session expired; nothing if it did not or that was forgotten.
  std::optional<absl::Time> Find(const SessionKey& key) const;

 private:
  struct Entry {
    absl::Time expire_time;
    uint64_t number = 0;
  };
  struct Order {
    std::string name;     // as in times_
    uint64_t number = 0;  // of an entry; an old one if the key came back
  };

  size_t max_ids_;
  uint64_t next_number_ = 0;
  absl::flat_hash_map<std::string, Entry> times_;  // by owner and id
  std::deque<Order> order_;  // oldest first; at most max_ids_
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
