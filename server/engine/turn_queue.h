#ifndef STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_
#define STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_

#include <cstddef>

#include "server/engine/backlog.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// The requests that wait for a place in a batch of one phase. Their clients
// take turns, one request a turn: a client that has had its turn comes after
// all others that wait, and so does a client that is new. Each client's own
// requests are first in, first out.
//
// A call takes constant time, however many wait, and allocates nothing: the
// links are Request::place and Client::lines. Thread-compatible.
class TurnQueue {
 public:
  explicit TurnQueue(BatchPhase phase) : phase_(static_cast<size_t>(phase)) {}

  bool empty() const { return last_ == nullptr; }
  // REQUIRES: it waits nowhere; it and its client stay while it is here.
  void Add(Request& request);

  // The first request of the client whose turn it is. REQUIRES: !empty().
  Request& front() const { return *LineOf(*LineOf(*last_).next).first; }
  // Takes it out; the turn passes on.
  void TakeFront();
  // Takes any request out; whose turn it is stays as it is. REQUIRES: it waits
  // here.
  void Remove(Request& request);

 private:
  Client::Line& LineOf(Client& client) const { return client.lines[phase_]; }
  void OpenLine(Client& client);
  void CloseLine(Client& client);

  const size_t phase_;
  // Whose turn is last; the next one's is first.
  Client* last_ = nullptr;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_
