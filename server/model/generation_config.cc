#include "server/model/generation_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/base/fetched_file.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/registry.h"

namespace steadystate {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

}  // namespace

absl::Status AddGeneratedTokens(const std::string& directory,
                                ModelConfig& model) {
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<std::string> text,
                               ReadModelFile(path, kMaxFileBytes));
  if (!text.has_value()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const Config config, Config::Parse(*text, path));
  STEADYSTATE_ASSIGN_OR_RETURN(const auto ends,
                               ReadTokenIds(config, "eos_token_id", model));
  const std::vector<int32_t> stated_ends =
      ends.value_or(std::vector<int32_t>());
  if (model.eos_by_default && !stated_ends.empty()) {
    model.eos_tokens.clear();
    model.eos_by_default = false;
  }
  for (const int32_t token : stated_ends) {
    if (std::ranges::count(model.eos_tokens, token) == 0) {
      model.eos_tokens.push_back(token);
    }
  }
  if (!model.bos_tokens.empty() && !model.bos_by_default) {
    return absl::OkStatus();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const auto begins,
                               ReadTokenIds(config, "bos_token_id", model));
  if (begins.has_value() && !begins->empty()) {
    model.bos_tokens = *begins;
    model.bos_by_default = false;
  }
  return absl::OkStatus();
}

}  // namespace steadystate
