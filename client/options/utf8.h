#ifndef STEADYSTATE_CLIENT_OPTIONS_UTF8_H_
#define STEADYSTATE_CLIENT_OPTIONS_UTF8_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate::client {

// Checks that `text` is UTF-8. INVALID_ARGUMENT, with the offset of the first
// byte that is not.
absl::Status CheckUtf8(absl::string_view text);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_UTF8_H_
