#ifndef STEADYSTATE_CLIENT_OPTIONS_COMPLETION_H_
#define STEADYSTATE_CLIENT_OPTIONS_COMPLETION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/options/program.h"

namespace steadystate::client {

// The names of the shells that there are completions for: "bash|zsh|fish".
inline constexpr absl::string_view kShells = "bash|zsh|fish";

// A script that lets a shell complete a program's commands, options and the
// words and files that are values. INVALID_ARGUMENT for another shell.
absl::StatusOr<std::string> FormatCompletion(const Program& program,
                                             absl::string_view shell);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_COMPLETION_H_
