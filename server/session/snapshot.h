#ifndef STEADYSTATE_SERVER_SESSION_SNAPSHOT_H_
#define STEADYSTATE_SERVER_SESSION_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/binary.h"
#include "server/model/state_layout.h"
#include "server/session/numerics.h"
#include "server/session/session_card.h"
#include "server/session/session_state.h"

namespace steadystate {

// What computes the sessions of a snapshot.
struct SnapshotOrigin {
  std::string model;        // its name, for people
  std::string fingerprint;  // the model's
  Numerics numerics;
  size_t vocab_size = 0;
};

// A snapshot that has been read and found good. Lends parts of its bytes.
struct Snapshot {
  SessionCard card;
  SessionContents contents;
  // It was computed under other numerics, at least in part: what comes next is
  // computed otherwise than it would have been there, within rounding.
  bool other_numerics = false;
  Numerics numerics;  // those under which it was written
  // What each slot of the layout has; none at position 0.
  std::vector<absl::string_view> slots;
};

// Writes sessions of one layout down as bytes that any server of the same model
// can go on from, and reads them. The form is specified in SNAPSHOT.md; the
// same session has the same bytes. Immutable.
class SnapshotFormat {
 public:
  // The layout outlives it.
  SnapshotFormat(const SessionLayout& layout, SnapshotOrigin origin);

  // What the snapshot says of the session's past, beside what it is.
  struct Past {
    bool other_numerics = false;  // it was computed under others, too
    bool imported = false;        // SessionState::imported
  };
  // REQUIRES: the state is in memory, or at position 0; nobody changes it.
  std::string Write(const SessionCard& card, const SessionState& state,
                    const Past& past) const;
  std::string Write(const SessionCard& card, const SessionState& state) const {
    return Write(card, state, Past());
  }

  // A tag of the numerics that snapshots are written under; 0: there is none,
  // and nothing counts as equal.
  uint64_t numerics_tag() const { return numerics_tag_; }
  const Numerics& numerics() const { return origin_.numerics; }
  const SessionLayout& layout() const { return layout_; }

  // More bytes no snapshot has that can be read, of a session of this cap.
  size_t max_bytes(uint64_t context_cap) const;
  // About what Write returns for a session at this position, or more.
  size_t bytes_at(uint64_t position) const;

  // What a snapshot says first, of bytes that may be any. Looks at no more of
  // them than the first sections of a snapshot can take, so any thread can
  // afford it. Errors of Read, of which it finds few.
  struct Head {
    SessionCard card;
    uint64_t position = 0;
  };
  absl::StatusOr<Head> ReadHead(absl::string_view bytes) const;

  // NUMERICS_MISMATCH if the session's states are of another form here, which
  // a snapshot without slots says, too.
  absl::Status CheckForm(const Snapshot& snapshot) const;

  // Takes a snapshot apart. Whoever made it, Restore is safe then.
  //   DATA_LOSS / SNAPSHOT_CORRUPT: not a snapshot, or not all of it, or not as
  //     it was written
  //   FAILED_PRECONDITION / SNAPSHOT_VERSION_UNSUPPORTED,
  //     MODEL_FINGERPRINT_MISMATCH, NUMERICS_MISMATCH (states of another form)
  //   OUT_OF_RANGE / CONTEXT_CAP_REACHED
  //   INVALID_ARGUMENT for what no session can have
  absl::StatusOr<Snapshot> Read(absl::string_view bytes) const;

  // Makes `to` what was written. REQUIRES: it has a fresh slot, or none where
  // the position is 0; the snapshot's bytes are there still.
  void Restore(const Snapshot& snapshot, SessionState& to) const;

 private:
  void WriteSlot(const StateSlot& slot, const SessionState& state,
                 std::string& to) const;
  absl::Status ReadSection(uint32_t kind, BinaryReader from,
                           Snapshot& to) const;
  absl::Status ReadOrigin(BinaryReader from, Snapshot& to) const;
  absl::Status ReadSequence(BinaryReader from, SessionContents& to) const;
  absl::Status ReadHistory(BinaryReader from, SessionContents& to) const;
  absl::Status ReadSlot(BinaryReader from, Snapshot& to) const;
  absl::Status Check(const Snapshot& snapshot) const;
  absl::Status CheckTokens(const std::vector<int32_t>& tokens,
                           int32_t least) const;

  const SessionLayout& layout_;
  const SnapshotOrigin origin_;
  const uint64_t numerics_tag_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SNAPSHOT_H_
