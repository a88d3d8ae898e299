#ifndef STEADYSTATE_SERVER_SESSION_REMOVALS_H_
#define STEADYSTATE_SERVER_SESSION_REMOVALS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/session/session_id.h"
#include "server/session/session_info.h"
#include "server/session/session_table.h"

namespace steadystate {

// The sessions that are on their way out of a store, and who waits for that.
//
// One that the log may have a word of leaves in two steps: the log says that it
// is gone, and then the database forgets it, when that round is safe from a
// loss of power. In the other order a process that ends in between would leave
// a log of which nobody knows where it begins, or what was taken back. Any
// other one leaves the database, and that is all.
//
// Thread-compatible. Whoever is to be told is told by the caller, without a
// lock (Told).
class Removals {
 public:
  // The session will not come back, or may, and why.
  using Removed = std::function<void(const absl::Status&)>;
  static constexpr uint64_t kNoRound = std::numeric_limits<uint64_t>::max();

  struct Removal {
    SessionUid uid{};
    // As NameOf has it; empty: nobody will ask for it by that.
    std::string name{};
    // If it fails, the name is nobody else's before it has succeeded.
    bool keeps_name = false;
    bool sync = false;    // a loss of power must not bring it back
    bool logged = false;  // the log may have a word of it
    // Should it come back, it needs the log from this round on.
    uint64_t needs = kNoRound;
    // Of those of that name, in the order in which they came.
    uint64_t number = 0;
    // The one that says that it is gone; 0: none does yet.
    uint64_t round = 0;
  };
  using Batch = std::vector<Removal>;

  // Those who are to be told, and what.
  class Told {
   public:
    void Add(Removed removed, const absl::Status& status);
    // Tells them. Without a lock.
    void Tell();

   private:
    std::vector<std::pair<Removed, absl::Status>> all_;
  };

  // The table outlives it: it keeps names from others.
  explicit Removals(SessionTable& table) : table_(table) {}

  // `removed` may be null; it is told when all of that name are gone that came
  // up to now.
  void Add(Removal removal, Removed removed);
  // The same of those that are under way. False if none of that name is, and
  // then `removed` is left as it was.
  bool Join(const SessionKey& key, Removed& removed);

  // The log has to be told of some, and nothing is with it.
  bool may_log() const { return logging_.empty() && !to_log_.empty(); }
  // Those that the log is told of next, up to `most`: they are with it until
  // Logged. REQUIRES: may_log().
  const Batch& BeginLogging(size_t most);
  // It is told by this round.
  void LoggedBy(uint64_t round);
  void Logged(const absl::Status& status, Told& told);

  // Some are to leave the database; what the log has up to the round `synced`
  // is safe from a loss of power.
  bool may_drop(uint64_t synced) const {
    return !to_drop_.empty() || (!logged_.empty() && IsSafe(synced));
  }
  Batch TakeToDrop(size_t most, uint64_t synced);
  // They have left the database, or may have not.
  void Dropped(Batch batch, const absl::Status& status, Told& told);

  // The log knows of some that are to leave the database.
  bool awaits_sync() const { return !logging_.empty() || !logged_.empty(); }

  // Somebody has begun to wait since ForgetNewWaiters.
  bool new_waiter() const { return new_waiter_; }
  void ForgetNewWaiters() { new_waiter_ = false; }
  // The log is not tried now, or the database is not: whoever waits for it is
  // told so.
  void FailLogging(const absl::Status& status, Told& told) {
    FailWaiting(true, status, told);
  }
  void FailDropping(const absl::Status& status, Told& told) {
    FailWaiting(false, status, told);
  }

  // Rounds [first, last] may not be in the log: it is told again.
  void Break(uint64_t first, uint64_t last);
  // Rounds below this one are not needed.
  uint64_t FirstNeeded() const {
    return needed_.empty() ? kNoRound : *needed_.begin();
  }

 private:
  // Those of one name.
  struct Named {
    std::map<uint64_t, bool> under_way;  // by number: is it logged?
    bool keeps_name = false;             // one of them does
    bool kept = false;                   // it is kept from others
    // Each for all up to a number.
    std::vector<std::pair<uint64_t, Removed>> waiting;
  };

  bool IsSafe(uint64_t synced) const { return logged_.front().round <= synced; }
  void FailWaiting(bool logged, const absl::Status& status, Told& told);
  void Need(uint64_t round);
  void NeedNoMore(uint64_t round);
  void Done(const Removal& removal, Told& told);
  void Failed(const Removal& removal, const absl::Status& status, Told& told);
  void Fail(const std::string& name, Named& named, uint64_t number,
            const absl::Status& status, Told& told);

  SessionTable& table_;
  uint64_t last_number_ = 0;
  bool new_waiter_ = false;
  std::deque<Removal> to_log_;
  Batch logging_;
  std::deque<Removal> logged_;   // they are in the database still
  std::deque<Removal> to_drop_;  // no log knows of them
  absl::flat_hash_map<std::string, Named> named_;
  std::multiset<uint64_t> needed_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_REMOVALS_H_
