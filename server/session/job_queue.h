#ifndef STEADYSTATE_SERVER_SESSION_JOB_QUEUE_H_
#define STEADYSTATE_SERVER_SESSION_JOB_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/base/clock.h"

namespace steadystate {

struct Session;

// What the keeper's thread is to do with a session's state.
struct Job {
  // Work on a session whose state nobody else touches meanwhile.
  using Work = std::function<absl::Status(Session&)>;
  // What is left of it, some of it at each call: nothing if there is more, or
  // how it ended.
  using Rest = std::function<std::optional<absl::Status>()>;

  Session* session = nullptr;
  uint64_t client = 0;  // whose request it is
  Work work;            // null: the state is wanted in memory
  Rest rest;            // in the place of `work`, once that is done
  SteadyTime ordered{};
  bool waited = false;      // for a slot, or to be filled
  bool found_none = false;  // no slot was free when its turn came
};

// Jobs that can be done. Their clients take turns, one job a turn: however many
// one of them has, another's first comes after one of each. A client's own are
// first in, first out. Thread-compatible.
class JobQueue {
 public:
  bool empty() const { return turns_.empty(); }

  void Add(Job job) { Line(job).push_back(std::move(job)); }
  // The same of one that was taken, and of which there is more: it is the
  // client's next.
  void PutBack(Job job) { Line(job).push_front(std::move(job)); }

  // REQUIRES: !empty().
  Job TakeNext();
  // Any job of the session, if there is one.
  std::optional<Job> Take(const Session& session);

  // The session of some job of which `is` tells; null if there is none.
  Session* Find(absl::FunctionRef<bool(const Job&)> is) const;

 private:
  // The job's client's, which has its turn in the end.
  std::deque<Job>& Line(const Job& job);

  absl::flat_hash_map<uint64_t, std::deque<Job>> lines_;  // by client
  std::deque<uint64_t>
      turns_;  // the clients that have some, the next one first
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_JOB_QUEUE_H_
