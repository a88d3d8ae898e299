#ifndef STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_
#define STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/request.h"

namespace steadystate {

// Segments that wait. Their clients take turns, one segment a turn: who has had
// one comes after all others that wait, and so does who is new. Each client's
// own are first in, first out.
//
// A call takes constant time, however many wait, and memory is kept.
// Thread-compatible.
class TurnQueue {
 public:
  // What one request has ready for a batch.
  struct Segment {
    RequestId id = 0;
    ClientId client = 0;
    size_t rows = 0;
  };

  bool empty() const { return last_ == kNone; }
  void Add(const Segment& segment);

  // The first segment of the client whose turn it is. REQUIRES: !empty().
  const Segment& front() const {
    return waiting_[lines_[lines_[last_].next].first].segment;
  }
  // Takes it out; the turn passes on.
  void TakeFront();
  // Takes it out, and it is still that client's turn.
  void DropFront();

 private:
  static constexpr size_t kNone = SIZE_MAX;

  struct Waiting {
    Segment segment;
    size_t next = kNone;  // of the client
  };

  // Those of one client, which has at least one.
  struct Line {
    ClientId client = 0;
    size_t first = kNone;
    size_t last = kNone;
    size_t next = kNone;  // whose turn is after this one's; a ring
  };

  // Elements with a `next`, by which those that are free form a list.
  template <typename T>
  class Pool {
   public:
    T& operator[](size_t place) { return elements_[place]; }
    const T& operator[](size_t place) const { return elements_[place]; }

    size_t Put(const T& element) {
      if (free_ == kNone) {
        elements_.push_back(element);
        return elements_.size() - 1;
      }
      const size_t place = free_;
      free_ = elements_[place].next;
      elements_[place] = element;
      return place;
    }
    void Free(size_t place) {
      elements_[place].next = free_;
      free_ = place;
    }

   private:
    std::vector<T> elements_;
    size_t free_ = kNone;
  };

  Line& LineOf(ClientId client);
  size_t OpenLine(ClientId client);
  void CloseFirstLine();

  Pool<Waiting> waiting_;
  Pool<Line> lines_;
  size_t last_ = kNone;  // the line whose turn is last; its next one's is first
  absl::flat_hash_map<ClientId, size_t> line_of_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_TURN_QUEUE_H_
