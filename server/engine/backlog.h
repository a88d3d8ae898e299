#ifndef STEADYSTATE_SERVER_ENGINE_BACKLOG_H_
#define STEADYSTATE_SERVER_ENGINE_BACKLOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/engine/request.h"
#include "server/engine/task.h"
#include "server/metrics/metrics.h"
#include "server/session/session.h"

namespace steadystate {

struct Lane;

// Where a request stands. Only the compute thread reads and writes it.
enum class RequestStage : uint8_t {
  kQueued,      // behind others, or its turn has not been taken up yet
  kAsking,      // its receiver is about to be asked whether it is ready
  kPaused,      // its receiver is not ready; see SessionKeeper::Pause
  kScheduled,   // waits for a place in a batch
  kRunning,     // is in the batch that runs
  kWithKeeper,  // its session is with SessionKeeper's thread
  kHeld,        // its answer waits for the log
};

class RequestPool;
struct Request;

// A client that has requests, or had some lately.
struct Client {
  // Those of its requests that wait for a place in a batch of one phase, and
  // the clients before and after it in the order of turns. TurnQueue's.
  struct Line {
    Request* first = nullptr;
    Request* last = nullptr;
    Client* previous = nullptr;
    Client* next = nullptr;
  };

  ClientId id = 0;
  // What it has of what all share; of the process itself nothing is counted.
  size_t requests = 0;
  size_t waiting = 0;
  uint64_t input_bytes = 0;
  std::array<Line, 2> lines;  // by BatchPhase
};

// A request that has been accepted and not answered.
struct Request {
  // Where it waits for a place in a batch; Scheduler's.
  struct Place {
    BatchPhase phase = BatchPhase::kDecode;
    size_t rows = 0;
    Request* previous = nullptr;  // of its client
    Request* next = nullptr;
  };

  RequestId id = 0;
  Client* client = nullptr;
  std::optional<uint64_t> expected_position;
  SteadyTime deadline;
  std::unique_ptr<Task> task;
  Lane* lane = nullptr;
  RequestPool* pool = nullptr;  // where it goes when it is answered
  RequestTimes times;
  RequestStage stage = RequestStage::kQueued;
  Place place;
  SteadyTime paused;              // since when, in kPaused
  bool begun = false;             // its first batch has been formed
  bool cancel_requested = false;  // noted for the compute thread
  bool wake_requested = false;    // noted for the compute thread
  // If it fails with nothing done the session is over (RequestBase::starts,
  // ephemeral):
  // it was made for the request, or is kept for it when it should end.
  bool made_session = false;
  // Those that ended the session that is kept: they are answered when the
  // request has begun it anew, or it is over. In order.
  std::vector<std::unique_ptr<Request>> enders;
  // What it has ended with, or ends with when the batch that it is in has run
  // or its session is back.
  std::optional<absl::Status> end;
};

// The requests of one session, in order. Exists while there are any.
struct Lane {
  Session* session = nullptr;
  WriterId writer = 0;    // 0: anybody's, since all of them join
  WriterId repeater = 0;  // another one, who has sent a repeat; as good as it
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
  Backlog(const Backlog&) = delete;
  Backlog& operator=(const Backlog&) = delete;

  // May this client's writer add a request to the session, or, if that is null,
  // to one that nobody uses? SESSION_BUSY, QUEUE_FULL, INVALID_ARGUMENT: an
  // input larger than there will ever be room for.
  // What may repeat others (MayRepeat) or joins them also goes behind another
  // writer's.
  absl::Status Check(const Session* session, ClientId client, WriterId writer,
                     uint64_t input_bytes, bool behind_others = false);

  // Is the request a repeat of one that is queued on the session, or that the
  // session has absorbed lately? Harmless then, whoever sends it.
  static bool MayRepeat(const Session& session, const RequestBase& request);

  // REQUEST_ID_REUSED if another writer's request of the same id and position
  // is queued on the session, or runs, and asks for something else.
  static absl::Status CheckRepeat(const Session& session, const Task& task);

  // Names the request, and opens a lane for the session (Session::lane) if
  // there is none. From now on the lane is this writer's, too, unless the
  // request joins. REQUIRES: Check succeeded for the client and writer.
  Request& Add(Session& session, ClientId client, WriterId writer,
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

  size_t size() const { return size_; }
  size_t begun() const { return begun_; }
  size_t waiting() const { return size_ - begun_; }
  // Clients that have requests; the process itself is none.
  size_t clients() const { return active_clients_; }

 private:
  // A place for one request. Its index and how often it has been used are the
  // request's id, so that finding one takes no hashing.
  struct Slot {
    Request* request = nullptr;
    uint32_t uses = 0;
  };

  absl::Status CheckWaiting(const Client& client) const;
  absl::Status CheckInput(const Client& client, uint64_t input_bytes) const;
  Client& ClientOf(ClientId id);
  void ForgetIdleClients();
  RequestId Name(Request& request);
  void CountIn(Request& request, ClientId id);
  void CountOut(const Request& removed);
  void OpenLane(Session& session);

  const Limits limits_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> closed_lanes_;  // of lanes_; to be used again
  std::set<std::pair<SteadyTime, RequestId>> deadlines_;  // finite ones
  Client process_;
  // All others. Those without requests are kept for a while, since the next
  // request mostly comes from one of them.
  absl::flat_hash_map<ClientId, std::unique_ptr<Client>> clients_;
  Client* recent_ = &process_;  // the last one looked for
  size_t active_clients_ = 0;
  size_t size_ = 0;
  size_t begun_ = 0;
  uint64_t input_bytes_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_BACKLOG_H_
