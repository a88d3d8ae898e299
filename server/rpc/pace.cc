#include "server/rpc/pace.h"

#include "absl/strings/str_cat.h"
#include "server/base/error.h"

namespace steadystate {

absl::Status TooSlow(absl::string_view what) {
  return MakeError(
      ErrorReason::kDeadlineExceeded,
      absl::StrCat("others wait for the memory that the snapshot takes: ", what,
                   " at least ", kLeastBytesPerSecond >> 10,
                   " KiB of it a second, or come back when fewer do"));
}

}  // namespace steadystate
