#include "server/session/session_limits.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace steadystate {

absl::Status CheckCapReaches(uint64_t context_cap, uint64_t position) {
  if (context_cap == 0 || position <= context_cap) return absl::OkStatus();
  return MakeError(
      ErrorReason::kContextCapReached,
      absl::StrCat("the session would be at position ", position, " and holds ",
                   context_cap,
                   " tokens: give it a larger Session.context_cap, which the "
                   "server's --max_context_cap and --state_memory bound"),
      {{"context_cap", absl::StrCat(context_cap)},
       {"position", absl::StrCat(position)}});
}

}  // namespace steadystate
