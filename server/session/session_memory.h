#ifndef STEADYSTATE_SERVER_SESSION_SESSION_MEMORY_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// The latest inputs that a session has absorbed, and how they were cut into
// pieces: a state is a function of just that. What is older is forgotten.
//
// Works on memory that the session has in its slot, 4 bytes and two bits for
// each input. It goes by positions: input p is the one that takes the session
// from position p to p + 1. Memory of zeros is the history of a session at
// position 0. Thread-compatible.
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
  //   drawn   they were drawn from the session's logits, not given
  void Append(uint64_t position, size_t rows, std::span<const int32_t> tokens,
              bool drawn);

  // Notes inputs [from, from + tokens.size()) as another history had them.
  //   cuts   of each, whether it is the first of its piece
  //   drawn  of each, whether it was drawn; empty: none was
  void Restore(uint64_t from, std::span<const int32_t> tokens,
               const std::vector<bool>& cuts, const std::vector<bool>& drawn);

  // The oldest input known of a session at `position`: kept are [Begin,
  // position).
  uint64_t Begin(uint64_t position) const {
    return position > capacity_ ? position - capacity_ : 0;
  }

  // Inputs [from, from + to.size()). REQUIRES: all of them are kept.
  //   to  i32  ids, or kEmbedding
  void Copy(uint64_t from, std::span<int32_t> to) const;

  // Is this input the first of its piece? REQUIRES: the input is kept.
  bool BeginsPiece(uint64_t position) const { return BitOf(cuts_, position); }
  // Was it drawn? The same.
  bool IsDrawn(uint64_t position) const { return BitOf(drawn_, position); }

 private:
  bool BitOf(const uint64_t* bits, uint64_t position) const;

  uint64_t* cuts_;   // a bit for each token
  uint64_t* drawn_;  // the same
  int32_t* tokens_;
  size_t capacity_;
};

// 128 bits over all that a request says; two requests with equal ones ask the
// same.
using RequestDigest = std::array<uint64_t, 2>;

// Most bytes of a client's name for a request.
inline constexpr size_t kMaxRequestIdBytes = 128;

// What is kept of a request that a session has absorbed, all of it or a part:
// what a repeat of the request is answered from. Lent.
struct RequestRecord {
  absl::string_view id{};  // the client's name for it: 1 to kMaxRequestIdBytes
  uint64_t begin = 0;      // the position that it expected, and found
  uint64_t end = 0;        // the position after what was absorbed of it
  RequestDigest digest{};
  bool finished = false;       // else something is left to absorb
  absl::string_view answer{};  // in a form of the request's own; may be empty
};

// The records of the latest requests that were absorbed into a session: at most
// kMaxRecords, in kBytes of the session's slot. Where these are full the oldest
// goes. Memory of zeros has none. Thread-compatible.
class RequestRecords {
 public:
  // As many requests as may be queued on a session by default, and so the steps
  // that a stream may have in flight.
  static constexpr size_t kMaxRecords = 32;
  static constexpr size_t kBytes = 4096;
  // The longest answer that is kept, so that others are.
  static constexpr size_t kMaxAnswerBytes = 64;

  // `memory`: kBytes of it, borrowed.
  explicit RequestRecords(std::byte* memory) : memory_(memory) {}

  // Adds a record, which replaces that of the same id and begin if that was the
  // last one added. One whose id or answer is out of bounds is left out.
  void Put(const RequestRecord& record);

  // Forgets all of them, or those of requests that have something left.
  void Clear();
  void DropUnfinished();

  // Valid until the next Put.
  std::optional<RequestRecord> Find(absl::string_view id, uint64_t begin) const;
  // Those that are kept, oldest first; the same.
  std::vector<RequestRecord> All() const;

 private:
  // Where the records lie, as bytes from the start.
  struct Frame {
    uint16_t begin = 0;
    uint16_t end = 0;
    uint16_t last = 0;  // the last one's begin
    uint16_t count = 0;
  };

  Frame frame() const;
  void DropOldest(Frame& frame) const;
  void Compact(Frame& frame);

  std::byte* memory_;
};

// Which requests a session may have records of, for those that may not look at
// its slot: the latest RequestRecords::kMaxRecords that were absorbed, by a
// hash of id and begin. Thread-compatible.
class RecordedKeys {
 public:
  static uint64_t KeyOf(absl::string_view id, uint64_t begin) {
    return absl::HashOf(id, begin);
  }

  // A piece of the request was absorbed.
  void Note(uint64_t key);
  // True for all that were noted; for others hardly ever.
  bool MayHave(uint64_t key) const;

 private:
  std::array<uint64_t, RequestRecords::kMaxRecords> keys_{};
  size_t count_ = 0;  // ever noted
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_MEMORY_H_
