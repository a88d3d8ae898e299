#ifndef STEADYSTATE_SERVER_RPC_OUTBOUND_BUDGET_H_
#define STEADYSTATE_SERVER_RPC_OUTBOUND_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/fair_share.h"

namespace steadystate {

// An answer up to this size need not be counted: its call takes more.
inline constexpr uint64_t kSmallAnswerBytes = uint64_t{8} << 10;

// What a call may have of its own: a token with 256 alternatives.
inline constexpr uint64_t kOwnOutboundBytes = uint64_t{32} << 10;

// The memory that answers may take, of all calls together, from when they are
// made until they are sent. A call reserves it before it lets an answer be
// computed; where there is no room it waits, and is told when there is. Each
// call has something of its own, so that a client may read its calls one after
// the other. What the calls of one connection hold beyond that
// is bounded by what is left for others (FairShare), so clients that do not
// read pause themselves and nobody else. Of those that wait, the one that needs
// least is first, and of one connection the one that has waited longest.
//
// An answer that is larger than any share gets through all the same: one at a
// time, for a connection that holds nothing. So what is held stays within the
// bound, or exceeds it by that one answer. Where so many calls hold something
// that there is nothing left for others to have of their own, all of what these
// want counts as their connection's. Thread-safe.
class OutboundBudget {
 public:
  // Told when what it waits for has been reserved.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Called without any lock of the budget, on any thread.
    virtual void OnOutboundRoom() = 0;
  };
  // Those to be told. The caller does so when it has released its own locks.
  using Woken = std::vector<std::shared_ptr<Waiter>>;

  // What one call holds. It holds nothing when it is destroyed. Its members
  // are the budget's.
  class Account {
   public:
    explicit Account(ClientId client) : client_(client) {}
    Account(const Account&) = delete;
    Account& operator=(const Account&) = delete;

   private:
    friend class OutboundBudget;
    const ClientId client_;
    uint64_t held_ = 0;      // by answers that have been made
    uint64_t reserved_ = 0;  // for those that are being made
    uint64_t wanted_ = 0;    // to be reserved beside that, by a waiter
    uint64_t own_ = 0;       // of held_ and reserved_, if it has any
    uint64_t turn_ = 0;      // of a waiter that would have some, in ownless_
    std::shared_ptr<Waiter> waiter_;
    bool overdraws_ = false;  // it holds more than its share, see above
  };

  // What calls may have of their own: so much each, as long as all of them
  // together have no more than `in_all`.
  struct Own {
    uint64_t each = 0;
    uint64_t in_all = 0;
  };

  // `share` divides bytes among connections, beside those of `own`. `metrics`
  // outlives the budget.
  OutboundBudget(FairShare share, Own own, Metrics& metrics);

  // True: `bytes` are reserved for the account's next answers. False: there is
  // no room; `waiter` will be told once they are reserved, and is kept until
  // then or until Release.
  bool Reserve(Account& account, uint64_t bytes,
               std::shared_ptr<Waiter> waiter);

  // The account's answers take `bytes` now; what came to that was reserved, as
  // far as it was. Returns those that find room by it.
  [[nodiscard]] Woken Hold(Account& account, uint64_t bytes);

  // No more answers will be made for the account: gives back what is reserved,
  // and it waits no more. Returns those that find room by it.
  [[nodiscard]] Woken EndReserve(Account& account);

  // Whether the account holds more than its share while calls of other
  // connections wait for room.
  bool KeepsOthersWaiting(const Account& account) const;

  // Held and reserved, by all.
  uint64_t used() const;

 private:
  // The calls of one client that wait, the first of which is next.
  struct Queue {
    std::deque<Account*> accounts;
    uint64_t need = 0;  // FairShare's, of the first; its place in order_
  };

  // What the account has of its own, or would have.
  uint64_t OwnOf(const Account& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What so many bytes are beyond that.
  uint64_t Charge(const Account& account, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the share has to have for `bytes` more.
  uint64_t ChargeOfMore(const Account& account, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryReserve(Account& account, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Set(Account& account, uint64_t held, uint64_t reserved)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddWaiter(Account& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveWaiter(Account& account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts the client's first waiter in its place in order_.
  void Reorder(ClientId client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves for those that wait, as far as there is room.
  Woken WakeWaiters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves for a waiter that there is room for.
  void Wake(Account& account, Woken& woken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The waiter that may have its answer now; null if there is none.
  Account* NextToWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t own_each_;
  Metrics& metrics_;
  mutable Mutex mutex_;
  FairShare share_ ABSL_GUARDED_BY(mutex_);
  uint64_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // by all, their own included
  uint64_t own_left_ ABSL_GUARDED_BY(mutex_);  // for calls that have none
  bool overdrawn_ ABSL_GUARDED_BY(mutex_) = false;  // by some account
  // A waiter's connection may have come to hold nothing.
  bool may_overdraw_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<ClientId, Queue> queues_ ABSL_GUARDED_BY(mutex_);
  // Clients that have waiters by what their first one needs: the bytes that
  // have to be free for it.
  std::set<std::pair<uint64_t, ClientId>> order_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Waiters that hold nothing, for which what a call has of its own would do,
  // by turn. There are some only while there is none of that left.
  std::map<uint64_t, Account*> ownless_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_turn_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Tells them. REQUIRES: the caller has no lock that they may take.
void Tell(const OutboundBudget::Woken& woken);

// The room that a stream's answers have in the budget of all calls. Says
// nothing to the budget while the stream has little: most have one step at a
// time. Thread-compatible.
class StepRoom {
 public:
  // `budget` outlives this object. No answers wait when it is destroyed.
  StepRoom(OutboundBudget& budget, ClientId client)
      : budget_(budget), account_(client) {}

  // Whether there is room for answers of `cost` bytes in all, those of requests
  // in flight included, beside `memory` that wait. If not, `waiter` is told
  // when there is.
  bool Reserve(size_t memory, size_t cost,
               std::shared_ptr<OutboundBudget::Waiter> waiter);

  // A waiter has not been told yet.
  bool awaited() const { return awaited_; }
  // It has been.
  void Came() { awaited_ = false; }

  // Answers that wait take `memory` now, and others are being made or not.
  // Returns those that find room by it.
  [[nodiscard]] OutboundBudget::Woken Count(size_t memory, bool in_flight);

  // Waits no more, and reserves nothing any more; the same.
  [[nodiscard]] OutboundBudget::Woken Release();

 private:
  OutboundBudget& budget_;
  OutboundBudget::Account account_;
  bool counted_ = false;  // the account may hold something
  bool awaited_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_OUTBOUND_BUDGET_H_
