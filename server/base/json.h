#ifndef STEADYSTATE_SERVER_BASE_JSON_H_
#define STEADYSTATE_SERVER_BASE_JSON_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace steadystate {

// Bounds of a JSON text. Everything is checked while reading, which ends where
// something is beyond them.
struct JsonLimits {
  size_t max_bytes = size_t{16} << 20;
  size_t max_depth = 64;
  size_t max_values = 4'000'000;  // members and elements, all levels together
  size_t max_memory = size_t{256} << 20;  // bytes that the value takes, about
};

// Parses a JSON text strictly, in time linear in it: a duplicate key in one
// object, a value beyond the limits, text after the value are INVALID_ARGUMENT.
// `what` names the text in messages ("config.json"). The bare words NaN,
// Infinity and -Infinity, which JSON has not but config.json files do, become
// strings of that spelling.
absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text,
                                         absl::string_view what,
                                         const JsonLimits& limits = {});

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_JSON_H_
