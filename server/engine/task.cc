#include "server/engine/task.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/session/session_limits.h"

namespace steadystate {

void Inputs::Set(size_t first, size_t rows, Piece& piece) const {
  piece.rows = rows;
  if (tokens_.empty()) {
    piece.embeddings =
        embeddings_.subspan(first * hidden_size_, rows * hidden_size_);
  } else {
    piece.tokens = tokens_.subspan(first, rows);
  }
}

absl::Status CheckContextCap(const SessionState& session, uint64_t rows) {
  const bool grows = session.context_cap() != 0;
  const uint64_t cap = grows ? session.context_cap() : kMaxPosition;
  const uint64_t left = cap - std::min(cap, session.position());
  if (rows <= left) return absl::OkStatus();
  return MakeError(
      ErrorReason::kContextCapReached,
      absl::StrCat(
          grows ? "the session's softmax layers hold " : "a session has ", cap,
          " tokens", grows ? "" : " at most", "; the session is at position ",
          session.position(), " and cannot absorb ", rows, " more",
          grows ? "; UpdateSession raises its context_cap" : ""),
      {{"context_cap", absl::StrCat(cap)},
       {"position", absl::StrCat(session.position())},
       {"tokens", absl::StrCat(rows)}});
}

absl::Status ReplayUnavailable(const RequestRecord& record,
                               absl::string_view what) {
  return MakeError(
      ErrorReason::kReplayUnavailable,
      absl::StrCat("the request was carried out before, from position ",
                   record.begin, " to ", record.end, ", and is not again; ",
                   what, ": go on from there"),
      {{"position", absl::StrCat(record.end)},
       {"expected_position", absl::StrCat(record.begin)}});
}

}  // namespace steadystate
