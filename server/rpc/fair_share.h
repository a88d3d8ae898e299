#ifndef STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_
#define STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"

namespace steadystate {

// Divides an amount among clients so that none can have it all. A client may
// always hold its allowance, whatever others do. What it holds beyond that
// comes out of the amount for all, and must not exceed a part of what is then
// left of it: of 17 MiB and a 16th part, one client has 1 MiB at most, and
// after ten such clients the next one still has half of that.
// Thread-compatible.
class FairShare {
 public:
  // The unit is that of whatever is divided: bytes, requests. `parts` is how
  // many times what a client holds must be left.
  FairShare(uint64_t total, uint64_t allowance, uint64_t parts)
      : total_(total), allowance_(allowance), parts_(parts) {}

  // What must be left of the amount for all so that there is room for the
  // client to hold `amount` more. 0: its allowance will do.
  uint64_t Need(ClientId client, uint64_t amount) const;

  // Whether there is room for the client to hold `amount` more.
  bool HasRoom(ClientId client, uint64_t amount) const;

  // The client holds `amount` more from now on, room or not.
  void Take(ClientId client, uint64_t amount);
  // The client holds `amount` less. REQUIRES: it holds that much.
  void GiveBack(ClientId client, uint64_t amount);

  // By all clients, allowances included.
  uint64_t held() const { return held_; }
  uint64_t HeldBy(ClientId client) const;

 private:
  uint64_t Beyond(uint64_t held) const {
    return held > allowance_ ? held - allowance_ : 0;
  }

  const uint64_t total_;
  const uint64_t allowance_;
  const uint64_t parts_;
  uint64_t held_ = 0;
  uint64_t beyond_ = 0;                              // of it, beyond allowances
  absl::flat_hash_map<ClientId, uint64_t> clients_;  // none holds 0
};

// A stream that would like to read and has been told to wait.
class WaitingStream {
 public:
  virtual ~WaitingStream() = default;
  // There may be room. Called without locks, on the thread that made it.
  virtual void OnRoom() = 0;
};

// The bytes of messages that streams have received and not yet taken up wholly:
// a bound on all together, and a share for each connection, so that one that
// sends and does not read leaves room for others. Reads that have been begun
// cannot be taken back, so a connection may come to more than its share, but
// never to more than it leaves. Thread-safe.
class InboundBudget {
 public:
  // A message of up to so many bytes need not be counted before it has to wait.
  static constexpr size_t kSmallBytes = size_t{64} << 10;

  // A connection whose messages come to an eighth of `bytes` is not read any
  // further until some of them have been taken up. Each has room for
  // `allowance` bytes beside these.
  explicit InboundBudget(size_t bytes, size_t allowance = kSmallBytes)
      : bytes_(bytes),
        share_(bytes / kShares),
        held_(bytes, allowance, /*parts=*/1) {}

  // Notes a message that has come. QUEUE_FULL: there is no room for it, or the
  // connection would hold more than it leaves to others.
  absl::Status Add(ClientId client, size_t bytes);
  // It has been taken up, or given up. Tells the streams that wait for that.
  void Remove(ClientId client, size_t bytes);

  // May streams of every connection read? False is no answer.
  bool HasRoomForAll() const {
    return used_.load(std::memory_order_relaxed) < share_;
  }

  // May streams of this connection read? If not, `stream` is told when they
  // may; once, or never if it is gone by then.
  bool MayRead(ClientId client, std::weak_ptr<WaitingStream> stream);

 private:
  static constexpr size_t kShares = 8;

  using Waiting = std::vector<std::weak_ptr<WaitingStream>>;

  const size_t bytes_;
  const size_t share_;
  Mutex mutex_;
  std::atomic<size_t> used_ = 0;  // held_.held()
  FairShare held_ ABSL_GUARDED_BY(mutex_);
  // Of those that hold their share.
  absl::flat_hash_map<ClientId, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

// The room that one message of a connection has taken there, if any: as long as
// the object lives, at most. Thread-compatible.
class MessageCharge {
 public:
  // `budget` outlives it.
  MessageCharge(InboundBudget& budget, ClientId client)
      : budget_(budget), client_(client) {}
  ~MessageCharge() { Release(); }
  MessageCharge(const MessageCharge&) = delete;
  MessageCharge& operator=(const MessageCharge&) = delete;

  // Takes room for a message, unless it has some. As InboundBudget::Add.
  absl::Status Take(size_t bytes);
  // As InboundBudget::Remove.
  void Release();

 private:
  InboundBudget& budget_;
  const ClientId client_;
  size_t bytes_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_FAIR_SHARE_H_
