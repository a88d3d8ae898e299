#ifndef STEADYSTATE_SERVER_SESSION_TOKEN_HISTORY_H_
#define STEADYSTATE_SERVER_SESSION_TOKEN_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace steadystate {

// The latest inputs that a session has absorbed, and how they were cut into
// pieces: a state is a function of just that. What is older is forgotten.
//
// Works on memory that the session has in its slot, 4 bytes and a bit for each
// input. It goes by positions: input p is the one that takes the session from
// position p to p + 1. Memory of zeros is the history of a session at position
// 0. Thread-compatible.
class TokenHistory {
 public:
  // Stands for an embedding vector, which is not kept.
  static constexpr int32_t kEmbedding = -1;

  // The memory that a history of so many inputs takes, a multiple of 8.
  static size_t Bytes(size_t capacity);

  // `memory`: Bytes(capacity) of it, aligned to 8 bytes; borrowed.
  TokenHistory(std::byte* memory, size_t capacity);

  // Notes one piece that takes the session on from `position`.
  //   tokens  the inputs; empty if they are embeddings
  void Append(uint64_t position, size_t rows, std::span<const int32_t> tokens);

  // The oldest input known of a session at `position`: kept are [Begin,
  // position).
  uint64_t Begin(uint64_t position) const {
    return position > capacity_ ? position - capacity_ : 0;
  }

  // Inputs [from, from + to.size()). REQUIRES: all of them are kept.
  //   to  i32  ids, or kEmbedding
  void Copy(uint64_t from, std::span<int32_t> to) const;

  // Is this input the first of its piece? REQUIRES: the input is kept.
  bool BeginsPiece(uint64_t position) const;

 private:
  void SetCut(size_t index, bool cut);

  int32_t* tokens_;
  uint64_t* cuts_;  // a bit for each token
  size_t capacity_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_TOKEN_HISTORY_H_
