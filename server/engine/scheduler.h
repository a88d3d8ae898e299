#ifndef STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
#define STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/engine/request.h"

namespace steadystate {

struct BatchLimits {
  size_t max_rows = 256;
  // Rows of prefill in a batch that also has decode rows: what a live stream
  // may have to wait for on top of its own token.
  size_t max_prefill_rows_beside_decode = 64;
};

// Decides what goes into the next batch. Pure decisions about segments that are
// ready: no threads, no clock, no states.
//
// A segment of one row is decode, a longer one prefill. Decode goes first, each
// kind first come first served; who was served queues up again at the end, so
// sessions take turns. Segments are never cut: what does not fit waits. Decode
// cannot starve prefill: after kMaxPassedOver batches without any, the oldest
// prefill segment goes before decode.
//
// Thread-compatible.
class Scheduler {
 public:
  static constexpr size_t kMaxPassedOver = 4;

  explicit Scheduler(const BatchLimits& limits) : limits_(limits) {}

  // A request has a segment ready. REQUIRES: 1 <= rows <= limits.max_rows; the
  // request has none waiting.
  void Add(RequestId id, size_t rows);

  // Forgets the request's waiting segment. REQUIRES: it has one.
  void Remove(RequestId id);

  bool empty() const { return waiting_ == 0; }

  // The requests whose segments form the next batch; empty if none is waiting.
  std::vector<RequestId> TakeBatch();

 private:
  struct Waiting {
    RequestId id;
    size_t rows;
  };
  using Queue = std::deque<Waiting>;

  void DropRemoved(Queue& queue);
  // Moves segments from the front of `queue` while `rows` allows.
  size_t Take(Queue& queue, size_t rows, std::vector<RequestId>& batch);

  const BatchLimits limits_;
  Queue decode_;
  Queue prefill_;
  absl::flat_hash_set<RequestId> removed_;  // still in a queue, to be skipped
  size_t waiting_ = 0;                      // without those removed
  size_t passed_over_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_SCHEDULER_H_
