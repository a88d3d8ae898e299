#ifndef STEADYSTATE_SERVER_SESSION_LOG_ENTRY_H_
#define STEADYSTATE_SERVER_SESSION_LOG_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/session/session_card.h"
#include "server/session/session_id.h"
#include "server/session/session_memory.h"
#include "server/session/session_state.h"

namespace steadystate {

// What a round of the log says of one session. LOG.md specifies the form.
enum class LogEntryKind : uint8_t {
  kCreated = 1,   // a card: the session is at position 0
  kAbsorbed = 2,  // it has absorbed a piece
  kRemoved = 3,   // it has been deleted, whatever a store may have of it
  kUsed = 4,      // it was in use then, and absorbed nothing
};

// Appends entries to a round's content. Thread-compatible.
class LogEntryWriter {
 public:
  // Borrows it. `numerics`: a tag of what computes the sessions; only under the
  // same one is a round computed again to the bit.
  LogEntryWriter(std::string& to, uint64_t numerics);

  void Created(const SessionCard& card, uint8_t durability);

  // One piece that the session has absorbed.
  struct Piece {
    uint64_t begin = 0;  // the position before
    absl::Time time{};   // of day, when that was
    size_t rows = 0;
    absl::string_view inputs{};             // as InputsOf has them
    std::optional<RequestRecord> record{};  // of its request, afterwards
    absl::string_view unfinished_text{};    // afterwards
    bool drawn = false;  // from the session's logits, not given
  };
  void Absorbed(const SessionUid& uid, const Piece& piece);

  void Removed(const SessionUid& uid);
  void Used(const SessionUid& uid, absl::Time time);

  // Appends a piece's inputs: tokens, or embeddings, f32[any].
  static void Inputs(std::span<const int32_t> tokens,
                     std::span<const float> embeddings, std::string& to);

 private:
  size_t Begin(LogEntryKind kind, const SessionUid& uid);
  void End(size_t begin);

  std::string& to_;
};

// An entry as it lies in a round; lent.
struct LogEntry {
  LogEntryKind kind = LogEntryKind::kAbsorbed;
  SessionUid uid{};
  absl::string_view body;  // the same without uid and kind
};

// Calls `each` for the entries of a round's content, in order. False if it is
// not as LogEntryWriter wrote it.
bool ForEachEntry(
    absl::string_view content,
    const std::function<void(uint64_t numerics, const LogEntry& entry)>& each);

// What must be known of an entry of kind kAbsorbed without taking it apart.
struct AbsorbedSpan {
  uint64_t begin = 0;
  uint64_t rows = 0;
  absl::Time time;
  bool embeddings = false;  // else tokens
};
// Nothing if the body is too short.
std::optional<AbsorbedSpan> SpanOf(absl::string_view absorbed_body);

// When a session was in use, as an entry of kind kUsed has it. Nothing if the
// body is too short.
std::optional<absl::Time> UseOf(absl::string_view used_body);

// What a session has absorbed since its snapshot, piece by piece, to be
// computed again. Thread-compatible.
class LogTail {
 public:
  // Bodies of entries of kind kAbsorbed, each with its length before it; they
  // take the session on to `end`. Forks that are to absorb the same share them.
  LogTail(std::shared_ptr<const std::string> bodies, uint64_t end);
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  static void Append(absl::string_view absorbed_body, std::string& bodies);

  // Where the session is when all of it has been absorbed.
  uint64_t end() const { return end_; }
  // There is no piece any more, or none that can be read.
  bool done() const { return done_; }
  // It does not take the session to its end: SNAPSHOT_CORRUPT, if it is done.
  absl::Status CheckComplete(const SessionState& state) const;

  // Rows of one piece: either tokens or embeddings, f32[rows, any].
  struct Rows {
    std::span<const int32_t> tokens{};
    std::span<const float> embeddings{};
    size_t count = 0;
    bool drawn = false;
  };
  // The first that are left of the next piece. REQUIRES: !done().
  Rows Next(size_t max_rows) const;

  // The state has absorbed so many of these rows: when that was all of the
  // piece, it is put as the piece left it, and the next one is up.
  void Absorbed(size_t rows, SessionState& state);

 private:
  void ReadNext();

  const std::shared_ptr<const std::string> bodies_;
  const uint64_t end_;
  size_t next_ = 0;  // in bodies_
  bool done_ = false;

  // The piece.
  size_t rows_ = 0;
  size_t absorbed_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<float> embeddings_;
  bool drawn_ = false;
  std::optional<RequestRecord> record_;  // lent by bodies_
  absl::string_view unfinished_text_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_LOG_ENTRY_H_
