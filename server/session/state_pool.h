#ifndef STEADYSTATE_SERVER_SESSION_STATE_POOL_H_
#define STEADYSTATE_SERVER_SESSION_STATE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/mutex.h"

namespace steadystate {

class StatePool;

// The size of every slot of a pool.
struct SlotSize {
  size_t bytes = 0;        // a multiple of 64
  size_t fixed_bytes = 0;  // in use from the first token; the rest may grow
};

// A slot on loan. Clears what was used of it and gives it back when destroyed,
// which takes as long as zeroing that much memory: not under a lock. Movable.
// Thread-compatible. The pool outlives it.
class StateLease {
 public:
  StateLease() = default;
  StateLease(StateLease&& other) noexcept;
  StateLease& operator=(StateLease&& other) noexcept;
  ~StateLease();

  // The slot's first byte, 64-byte aligned; null without a slot.
  std::byte* bytes() const { return bytes_; }

  // Says that bytes [0, end) may be written from now on. Only they are cleared:
  // a slot that nobody wrote stays untouched.
  // REQUIRES: end <= SlotSize::bytes.
  void MarkUsed(size_t end) {
    if (end > used_bytes_) used_bytes_ = end;
  }
  // Makes the slot all zeros again. REQUIRES: there is one.
  void Clear();

  // What it takes of the pool's budget; 0 without a slot.
  uint64_t charge() const { return charge_; }
  // Takes so much from now on. False if the budget does not hold that: then
  // nothing has changed. REQUIRES: there is a slot.
  bool Recharge(uint64_t bytes);

 private:
  friend class StatePool;
  void GiveBack();

  StatePool* pool_ = nullptr;
  std::byte* bytes_ = nullptr;
  size_t slot_ = 0;
  size_t used_bytes_ = 0;
  uint64_t charge_ = 0;
};

// Slots of equal size for session states, lent against an exact byte budget: of
// a slot that grows, a lease may be charged for less than all, and then uses no
// more.
// Slots lie in slabs that are mapped when they are first needed and stay; a
// slot's memory is touched by its user only, so an unused budget costs nothing.
// Slabs of fixed slots ask for huge pages. Slots that grow refuse them, since
// their untouched pages shall stay untouched, and give their pages back; their
// slabs lie side by side, so that the system counts few mappings.
//
// Every slot is all zeros when it is lent. Thread-safe.
class StatePool {
 public:
  // `lease_bytes`: what a lease takes of `budget_bytes` as a rule, and
  // `least_bytes`, if not 0, what it takes at least. REQUIRES: size.bytes > 0
  // is a multiple of 64; size.fixed_bytes <= size.bytes and both of these.
  StatePool(SlotSize size, uint64_t lease_bytes, uint64_t budget_bytes,
            uint64_t least_bytes = 0);
  ~StatePool();
  StatePool(const StatePool&) = delete;
  StatePool& operator=(const StatePool&) = delete;

  // STATE_BUDGET_EXHAUSTED if the budget does not hold so much more, or the
  // system refuses the memory. The caller adds a retry hint if it knows one.
  absl::StatusOr<StateLease> Allocate(uint64_t bytes);
  absl::StatusOr<StateLease> Allocate() { return Allocate(lease_bytes_); }
  // Does the budget?
  bool HasRoom(uint64_t bytes) const;

  // STATE_BUDGET_EXHAUSTED: what is to be answered where a session of so many
  // bytes finds no room.
  absl::Status Exhausted(uint64_t session_bytes) const;

  uint64_t budget_bytes() const { return budget_bytes_; }
  // Leases that are charged as a rule.
  size_t capacity() const { return budget_bytes_ / lease_bytes_; }
  size_t lent() const;  // leases
  uint64_t lent_bytes() const;

 private:
  friend class StateLease;
  struct Slab {
    std::byte* bytes = nullptr;
    size_t mapped_bytes = 0;
  };

  void Release(const StateLease& lease);
  bool Recharge(uint64_t from, uint64_t to);
  void Clear(std::byte* slot, size_t used_bytes) const;
  bool AddSlab() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::byte* SlotBytes(size_t slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SlotSize size_;
  const uint64_t lease_bytes_;
  const uint64_t budget_bytes_;
  const size_t most_;  // slots
  const size_t slots_per_slab_;

  mutable Mutex
      mutex_;  // held for a few instructions; no lock is taken under it
  std::vector<Slab> slabs_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> free_ ABSL_GUARDED_BY(mutex_);  // last one in is next out
  size_t lent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_STATE_POOL_H_
