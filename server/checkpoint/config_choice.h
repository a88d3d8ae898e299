#ifndef STEADYSTATE_SERVER_CHECKPOINT_CONFIG_CHOICE_H_
#define STEADYSTATE_SERVER_CHECKPOINT_CONFIG_CHOICE_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"

namespace steadystate {

// A name that a config.json may give, and what it means.
template <typename Value>
struct Choice {
  absl::string_view name;
  Value value;
};

// What the name under a key means; the first choice if it is absent or null.
// UNIMPLEMENTED, naming key, value and the names there are, if it is none of
// them.
template <typename Value>
absl::StatusOr<Value> ReadChoice(const Config& config, absl::string_view key,
                                 std::span<const Choice<Value>> choices) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string name,
                               config.String(key, choices.front().name));
  const auto found =
      std::ranges::find(choices, absl::string_view(name), &Choice<Value>::name);
  if (found != choices.end()) return found->value;
  const std::string names = absl::StrJoin(
      choices, ", ", [](std::string* out, const Choice<Value>& choice) {
        absl::StrAppend(out, "\"", choice.name, "\"");
      });
  return config.Unsupported(key, absl::StrCat("supported are ", names));
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_CONFIG_CHOICE_H_
