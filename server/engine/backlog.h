#ifndef STEADYSTATE_SERVER_ENGINE_BACKLOG_H_
#define STEADYSTATE_SERVER_ENGINE_BACKLOG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/session/session.h"

namespace steadystate {

struct Lane;

// Where a request stands. Only the compute thread reads and writes it.
enum class RequestStage : uint8_t {
  kQueued,     // behind others, or its turn has not been taken up yet
  kAsking,     // its receiver is about to be asked whether it is ready
  kPaused,     // its receiver is not ready
  kScheduled,  // waits for a place in a batch
  kRunning,    // is in the batch that runs
  kElsewhere,  // its session is with SessionKeeper's thread
};

class StepTask;

// A request that has been accepted and not answered.
struct Request {
  RequestId id = 0;
  ClientId client = 0;
  std::optional<uint64_t> expected_position;
  SteadyTime deadline;
  std::unique_ptr<Task> task;
  Lane* lane = nullptr;
  StepTask* step = nullptr;  // the task, if its answer goes to a sink
  RequestTimes times;
  RequestStage stage = RequestStage::kQueued;
  bool begun = false;             // its first batch has been formed
  bool cancel_requested = false;  // noted for the compute thread
  bool wake_requested = false;    // noted for the compute thread
  // What ends it when the batch that it is in has run, or its session is back.
  std::optional<absl::Status> end_when_back;
};

// The requests of one session, in order. Exists while there are any.
struct Lane {
  Session* session = nullptr;
  WriterId writer = 0;
  // The first one has its turn. Few, mostly one.
  std::vector<std::unique_ptr<Request>> requests;
  size_t index = 0;  // in Backlog
};

// Inputs of a request up to this size may take the last part of the bytes that
// all may have.
inline constexpr uint64_t kSmallInputBytes = uint64_t{16} << 10;

// The largest input that has room at all where all may have `max_input_bytes`.
// The rest of it, an eighth in whole small inputs, is for those.
constexpr uint64_t LargestInput(uint64_t max_input_bytes) {
  const uint64_t small_inputs = max_input_bytes / 8 / kSmallInputBytes;
  return max_input_bytes - small_inputs * kSmallInputBytes;
}

// The requests that have been accepted and not answered: one queue for each
// session, bounds on each, on each client and on all, deadlines in order.
//
// A client may have as much, of places to wait and of bytes of inputs, as it
// leaves free: one alone half, and where some have taken their share there is
// still one for the next. It may always have one request.
//
// Thread-compatible.
class Backlog {
 public:
  struct Limits {
    size_t max_queued_per_session = 32;
    size_t max_queued = 65536;
    uint64_t max_input_bytes = uint64_t{1} << 30;
  };

  explicit Backlog(const Limits& limits) : limits_(limits) {}

  // May this client's writer add a request to the session, or, if that is null,
  // to one that nobody uses? SESSION_BUSY, QUEUE_FULL, INVALID_ARGUMENT: an
  // input larger than there will ever be room for.
  absl::Status Check(const Session* session, ClientId client, WriterId writer,
                     uint64_t input_bytes) const;

  // Opens a lane for the session (Session::lane) if there is none.
  // REQUIRES: Check succeeded for Request::client.
  Request& Add(Session& session, WriterId writer,
               std::unique_ptr<Request> request);

  // Null if the request has been answered or never existed.
  Request* Find(RequestId id) const;
  void MarkBegun(Request& request);

  // Takes a request out. Its lane stays, perhaps empty: then close it.
  std::unique_ptr<Request> Remove(Request& request);
  // The session has none then. REQUIRES: it is empty.
  void CloseLane(Lane& lane);

  SteadyTime NextDeadline() const;
  // Takes one request's deadline out of the order if it is due by `now`.
  Request* TakeOverdue(SteadyTime now);

  // All requests, in any order.
  std::vector<Request*> All() const;

  size_t size() const { return requests_.size(); }
  size_t begun() const { return begun_; }
  size_t waiting() const { return requests_.size() - begun_; }
  // Clients that have requests.
  size_t clients() const { return clients_.size(); }

 private:
  // What a client has of what all share.
  struct Share {
    size_t requests = 0;
    size_t waiting = 0;
    uint64_t input_bytes = 0;
  };

  absl::Status CheckWaiting(const Share& share) const;
  absl::Status CheckInput(const Share& share, uint64_t input_bytes) const;
  Share ShareOf(ClientId client) const;
  void LessenShare(const Request& removed);
  void OpenLane(Session& session, WriterId writer);

  const Limits limits_;
  absl::flat_hash_map<RequestId, Request*> requests_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> closed_lanes_;  // of lanes_; to be used again
  std::set<std::pair<SteadyTime, RequestId>> deadlines_;  // finite ones
  // Of all but the process itself.
  absl::flat_hash_map<ClientId, Share> clients_;
  size_t begun_ = 0;
  uint64_t input_bytes_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_BACKLOG_H_
