#ifndef STEADYSTATE_SERVER_TEXT_JSON_FIELDS_H_
#define STEADYSTATE_SERVER_TEXT_JSON_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace steadystate {

// Members of the objects of a tokenizer.json. A member of another type than
// asked for is INVALID_ARGUMENT; so is one that is absent (or null) where no
// fallback is given, and anything asked of what is not an object.

// The member, or null if it is absent.
const nlohmann::json& MemberOrNull(const nlohmann::json& object,
                                   absl::string_view name);

absl::StatusOr<std::string> StringMember(const nlohmann::json& object,
                                         absl::string_view name);
absl::StatusOr<std::string> StringMember(const nlohmann::json& object,
                                         absl::string_view name,
                                         absl::string_view fallback);
absl::StatusOr<bool> BoolMember(const nlohmann::json& object,
                                absl::string_view name, bool fallback);

// In [0, limit).
absl::StatusOr<int32_t> IndexMember(const nlohmann::json& object,
                                    absl::string_view name, size_t limit);

// The member "type" of a normalizer, a pre-tokenizer, a decoder or a model.
absl::StatusOr<std::string> TypeOf(const nlohmann::json& object,
                                   absl::string_view what);

// UNIMPLEMENTED: "<what> of type '<type>' ...".
absl::Status UnsupportedType(absl::string_view what, absl::string_view type);

// The member `name` of a "Sequence": an array of at most 64 steps.
absl::StatusOr<const nlohmann::json*> StepsMember(const nlohmann::json& object,
                                                  absl::string_view name);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_JSON_FIELDS_H_
