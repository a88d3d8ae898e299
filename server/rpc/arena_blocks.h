#ifndef STEADYSTATE_SERVER_RPC_ARENA_BLOCKS_H_
#define STEADYSTATE_SERVER_RPC_ARENA_BLOCKS_H_

#include <cstddef>

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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ARENA_BLOCKS_H_
