#ifndef STEADYSTATE_SERVER_RPC_ARENA_MESSAGE_H_
#define STEADYSTATE_SERVER_RPC_ARENA_MESSAGE_H_

#include <cstddef>

#include "google/protobuf/arena.h"

namespace steadystate {

// Memory for the arenas of messages, in blocks that go round among all of them:
// a message of many steps needs some for a moment, and the heap would join and
// split them each time. Keeps a bounded number. Thread-safe.
class ArenaBlocks {
 public:
  // The size of a block that is kept. Others come from the heap.
  static constexpr size_t kBytes = size_t{8} << 10;

  static void* Allocate(size_t bytes);
  static void Free(void* block, size_t bytes);
};

// A message that is filled again and again, on an arena of its own: its parts
// lie one after the other and go all at once, where a message by itself gives
// each part back to the heap when it is cleared and takes it anew. Keeps room
// for a message of one step, whatever was in it before, which serves the thread
// that made or cleared it; another that fills it takes a block for itself.
// Thread-compatible.
template <typename Message>
class ArenaMessage {
 public:
  // `prototype`: any message of the type, which outlives this.
  explicit ArenaMessage(const Message& prototype = Message::default_instance())
      : arena_(Options(first_block_)), prototype_(prototype) {
    Create();
  }
  ArenaMessage(const ArenaMessage&) = delete;
  ArenaMessage& operator=(const ArenaMessage&) = delete;

  // The message, until Clear.
  Message& operator*() const { return *message_; }
  Message* operator->() const { return message_; }
  Message* get() const { return message_; }

  // Bytes that the message and its parts take, room kept for more included;
  // texts of more than a few bytes are not in it.
  size_t memory() const { return sizeof(*this) + arena_.SpaceAllocated(); }

  // Makes it a new, empty message.
  void Clear() {
    arena_.Reset();
    Create();
  }

 private:
  static constexpr size_t kFirstBlockBytes = 1024;

  static google::protobuf::ArenaOptions Options(char* first_block) {
    google::protobuf::ArenaOptions options;
    options.initial_block = first_block;
    options.initial_block_size = kFirstBlockBytes;
    options.start_block_size = ArenaBlocks::kBytes;
    options.max_block_size = ArenaBlocks::kBytes;
    options.block_alloc = ArenaBlocks::Allocate;
    options.block_dealloc = ArenaBlocks::Free;
    return options;
  }

  void Create() { message_ = prototype_.New(&arena_); }

  alignas(std::max_align_t) char first_block_[kFirstBlockBytes];
  google::protobuf::Arena arena_;
  const Message& prototype_;
  Message* message_ = nullptr;  // on the arena
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ARENA_MESSAGE_H_
