#include "server/model/generation_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/base/mapped_file.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/registry.h"

namespace steadystate {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

}  // namespace

absl::Status AddGeneratedTokens(const std::string& directory,
                                ModelConfig& model) {
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  STEADYSTATE_ASSIGN_OR_RETURN(const Config config, Config::Parse(*text, path));
  STEADYSTATE_ASSIGN_OR_RETURN(const auto ends,
                               ReadTokenIds(config, "eos_token_id", model));
  for (const int32_t token : ends.value_or(std::vector<int32_t>())) {
    if (std::ranges::count(model.eos_tokens, token) == 0) {
      model.eos_tokens.push_back(token);
    }
  }
  if (!model.bos_tokens.empty()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const auto begins,
                               ReadTokenIds(config, "bos_token_id", model));
  model.bos_tokens = begins.value_or(std::vector<int32_t>());
  return absl::OkStatus();
}

}  // namespace steadystate
