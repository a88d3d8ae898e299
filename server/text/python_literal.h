#ifndef STEADYSTATE_SERVER_TEXT_PYTHON_LITERAL_H_
#define STEADYSTATE_SERVER_TEXT_PYTHON_LITERAL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// The bytes of a literal as Python's repr() writes it: 'text' or "text", which
// becomes UTF-8, or b'bytes'. INVALID_ARGUMENT for anything else, among it
// surrogates, octal escapes and \N{...}, which repr() does not write.
absl::StatusOr<std::string> ParsePythonLiteral(absl::string_view literal);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PYTHON_LITERAL_H_
