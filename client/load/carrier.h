#ifndef STEADYSTATE_CLIENT_LOAD_CARRIER_H_
#define STEADYSTATE_CLIENT_LOAD_CARRIER_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "client/load/load.h"
#include "client/load/session_pool.h"
#include "client/load/tally.h"
#include "google/protobuf/duration.pb.h"
#include "steadystate/client.h"

namespace steadystate::client {

// What the server says that something took.
inline std::chrono::nanoseconds ToNanoseconds(
    const google::protobuf::Duration& duration) {
  return std::chrono::seconds(duration.seconds()) +
         std::chrono::nanoseconds(duration.nanos());
}

// What the carriers of a run share.
struct LoadContext {
  const LoadOptions& options;
  const Window& window;
  SessionPool& pool;
  absl::Duration call_timeout;  // of a Generate call
  uint64_t max_step_tokens;     // of one step of a prompt
};

// Takes the requests of some sessions to the server and counts what comes of
// them. Thread-safe. The end of a request is told to the pool, and the one that
// the pool names next is begun at once, without another thread.
//
// Begin as often as needed, then Close, then WaitUntilClosed, then tally.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Begins a request. The session is busy until the pool hears of its end.
  virtual void Begin(const Turn& turn) = 0;

  // Ends requests that are under way, without waiting for answers.
  virtual void Cancel() = 0;

  // There are no more requests. REQUIRES: none is begun afterwards.
  virtual void Close() = 0;

  // Waits until no callback can come any more.
  // REQUIRES: requests under way end, or Cancel was called.
  virtual void WaitUntilClosed() = 0;

  // A copy of what was counted so far.
  virtual Tally tally() const = 0;

  // Of tally(): cheap, for a display of progress.
  struct Progress {
    uint64_t drawn_tokens = 0;
    uint64_t failed = 0;
    bool going_away = false;  // the server has said that it shuts down
  };
  virtual Progress progress() const = 0;
};

// One StreamStep stream: the prompt of a request is a step that samples, and so
// is every token that it is answered with, but the last. A prompt that is
// longer than steps may be is cut, and its last piece samples. At most one step
// of a session is in flight. `context` outlives the carrier.
std::unique_ptr<Carrier> MakeStepCarrier(const Client& client,
                                         const LoadContext& context);

// A Generate call for each request of the sessions of a connection. `client`
// and `context` outlive the carrier.
std::unique_ptr<Carrier> MakeGenerateCarrier(const Client& client,
                                             const LoadContext& context);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_CARRIER_H_
