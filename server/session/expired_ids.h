#ifndef STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
#define STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "server/session/session_info.h"

namespace steadystate {

// That a session has expired, or that this is to be forgotten.
struct ExpiredId {
  bool operator==(const ExpiredId&) const = default;

  std::string name;                // as NameOf has it
  std::optional<absl::Time> time;  // when; nothing: forget it
};

// Remembers which sessions have expired, up to a bound; forgets those first
// that expired first. Knows what a store has to be told so that the next
// process remembers the same. Thread-compatible.
class ExpiredIds {
 public:
  explicit ExpiredIds(size_t max_ids) : max_ids_(max_ids) {}

  // kYes: the next process is to know of it.
  enum class Stored : uint8_t { kNo, kYes };
  void Add(const SessionKey& key, absl::Time expire_time, Stored stored);
  // What a store has, to begin with: first those that expired first.
  void AddStored(const ExpiredId& found);

  // The key is in use again.
  void Forget(const SessionKey& key);

  // When the session expired; nothing if it did not or that was forgotten.
  std::optional<absl::Time> Find(const SessionKey& key) const;

  // What the store has not been told: at most one for each id that is
  // remembered, and for each that the store has.
  bool has_untold() const { return !untold_.empty(); }
  std::vector<ExpiredId> TakeUntold();
  // It could not be told that.
  void GiveBack(const std::vector<ExpiredId>& untold);

 private:
  struct Entry {
    absl::Time expire_time;
    uint64_t number = 0;
    bool kept = false;    // the store is to have it
    bool stored = false;  // it may have something of that name
  };
  struct Order {
    std::string name;     // as in times_
    uint64_t number = 0;  // of an entry; an old one if the key came back
  };

  void Put(std::string name, Entry entry);
  void Erase(const std::string& name);

  size_t max_ids_;
  uint64_t next_number_ = 0;
  absl::flat_hash_map<std::string, Entry> times_;  // by owner and id
  std::deque<Order> order_;  // oldest first; at most max_ids_
  // Those that are not in times_ the store has, and is to forget.
  absl::flat_hash_set<std::string> untold_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_EXPIRED_IDS_H_
