#ifndef STEADYSTATE_SERVER_RPC_OUTBOUND_QUEUE_H_
#define STEADYSTATE_SERVER_RPC_OUTBOUND_QUEUE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "server/rpc/arena_message.h"

namespace steadystate {

// Messages that wait for their turn on a stream: whatever became ready since
// the last write travels in one message, as long as that stays below a size.
// The caller bounds the queue by looking at memory(). Thread-compatible.
template <typename Message>
class OutboundQueue {
 public:
  // With a bound of 0 bytes each part has a message of its own. `prototype`:
  // any message of the type, which outlives this.
  explicit OutboundQueue(size_t max_message_bytes,
                         const Message& prototype = Message::default_instance())
      : max_message_bytes_(max_message_bytes), prototype_(prototype) {}

  // The message to which a part of at most `part_bytes` may be added: the last
  // one if it has room, else a new one. `outside`: bytes of memory of the part
  // that are not on the message's arena.
  Message& RoomFor(size_t part_bytes, size_t outside = 0) {
    if (waiting_.empty() ||
        waiting_.back().bytes + part_bytes > max_message_bytes_) {
      if (spare_ == nullptr) {
        spare_ = std::make_unique<ArenaMessage<Message>>(prototype_);
      } else {
        spare_->Clear();  // Here: the thread that fills it clears it.
      }
      if (!waiting_.empty()) Close(waiting_.back());
      waiting_.push_back({.message = std::move(spare_)});
    }
    waiting_.back().bytes += part_bytes;
    waiting_.back().outside += outside;
    bytes_ += part_bytes;
    return **waiting_.back().message;
  }

  // Bytes on the wire that wait or are being written.
  size_t bytes() const { return bytes_; }

  // Bytes of memory that they take: as parts of messages, and once more as
  // gRPC keeps them when a message is being written.
  size_t memory() const {
    if (waiting_.empty()) return closed_memory_;
    return closed_memory_ + MemoryOf(waiting_.back());
  }

  bool empty() const { return waiting_.empty(); }

  // Takes the oldest message out to be written. It stays valid until the next
  // call. REQUIRES: !empty(), and the message before has been written.
  const Message& Next() {
    if (waiting_.size() == 1) Close(waiting_.front());
    writing_ = std::move(waiting_.front());
    waiting_.pop_front();
    return **writing_.message;
  }

  // The message that Next gave has been written; its bytes no longer count.
  void WriteDone() {
    bytes_ -= writing_.bytes;
    closed_memory_ -= writing_.memory;
    if (writing_.memory <= kKeptBytes) spare_ = std::move(writing_.message);
    writing_ = {};
  }

  // Drops what waits.
  void Clear() {
    for (const Sized& sized : waiting_) {
      bytes_ -= sized.bytes;
      closed_memory_ -= sized.memory;
    }
    waiting_.clear();
  }

 private:
  // A message up to this size is used again, and until then has its memory.
  static constexpr size_t kKeptBytes = size_t{32} << 10;

  struct Sized {
    std::unique_ptr<ArenaMessage<Message>> message;
    size_t bytes = 0;    // on the wire
    size_t outside = 0;  // of memory, beside the message's arena
    size_t memory = 0;   // once nothing is added to it any more
  };

  static size_t MemoryOf(const Sized& sized) {
    return sized.bytes + sized.outside + sized.message->memory();
  }

  void Close(Sized& sized) {
    sized.memory = MemoryOf(sized);
    closed_memory_ += sized.memory;
  }

  const size_t max_message_bytes_;
  const Message& prototype_;
  std::deque<Sized> waiting_;
  Sized writing_;
  std::unique_ptr<ArenaMessage<Message>> spare_;  // or none
  size_t bytes_ = 0;
  size_t closed_memory_ = 0;  // of all but the last that waits
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_OUTBOUND_QUEUE_H_
