#include "server/engine/context_cap.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace steadystate {

absl::Status CheckContextCap(const SessionState& session, uint64_t rows) {
  const uint64_t cap = session.context_cap();
  if (cap == 0 || rows <= cap - session.position()) return absl::OkStatus();
  return MakeError(
      ErrorReason::kContextCapReached,
      absl::StrCat("the model's softmax layers hold ", cap,
                   " tokens; the session is at position ", session.position(),
                   " and cannot absorb ", rows, " more"),
      {{"context_cap", absl::StrCat(cap)},
       {"position", absl::StrCat(session.position())},
       {"tokens", absl::StrCat(rows)}});
}

}  // namespace steadystate
