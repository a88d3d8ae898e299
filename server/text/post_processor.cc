#include "server/text/post_processor.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokens = 16;

// Appends the ids of the special token `name`, which may be several.
absl::Status AppendSpecial(const json& processor, const std::string& name,
                           size_t vocab_size, std::vector<int32_t>& to) {
  const json& token =
      MemberOrNull(MemberOrNull(processor, "special_tokens"), name);
  const json& ids = MemberOrNull(token, "ids");
  if (!ids.is_array() || to.size() + ids.size() > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("the special token '", name.substr(0, 80),
                     "' of the template has no list of ids, or too many"));
  }
  for (const json& id : ids) {
    STEADYSTATE_ASSIGN_OR_RETURN(to.emplace_back(),
                                 IndexMember({{"ids", id}}, "ids", vocab_size));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> PrefixOfTemplate(const json& processor,
                                                      size_t vocab_size) {
  std::vector<int32_t> prefix;
  STEADYSTATE_ASSIGN_OR_RETURN(const json* parts,
                               StepsMember(processor, "single"));
  for (const json& part : *parts) {
    const json& special = MemberOrNull(part, "SpecialToken");
    if (special.is_null()) break;  // the text
    STEADYSTATE_ASSIGN_OR_RETURN(const std::string name,
                                 StringMember(special, "id"));
    STEADYSTATE_RETURN_IF_ERROR(
        AppendSpecial(processor, name, vocab_size, prefix));
  }
  return prefix;
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> TextPrefixOf(const json& post_processor,
                                                  size_t vocab_size) {
  if (post_processor.is_null()) return std::vector<int32_t>();
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(post_processor, "the post-processor"));
  if (type == "TemplateProcessing") {
    return PrefixOfTemplate(post_processor, vocab_size);
  }
  std::vector<int32_t> prefix;
  if (type != "Sequence") return prefix;
  STEADYSTATE_ASSIGN_OR_RETURN(const json* steps,
                               StepsMember(post_processor, "processors"));
  for (const json& step : *steps) {
    STEADYSTATE_ASSIGN_OR_RETURN(const std::string kind,
                                 TypeOf(step, "a post-processor"));
    if (kind != "TemplateProcessing") continue;
    STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<int32_t> before,
                                 PrefixOfTemplate(step, vocab_size));
    // Each goes around what the one before it made.
    prefix.insert(prefix.begin(), before.begin(), before.end());
  }
  return prefix;
}

}  // namespace steadystate
