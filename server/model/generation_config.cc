#include "server/model/generation_config.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/mapped_file.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"

namespace steadystate {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr size_t kMaxTokens = 64;

absl::StatusOr<std::vector<int32_t>> ReadTokens(const Config& config,
                                                absl::string_view key,
                                                size_t vocab_size) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<std::vector<size_t>> stated,
      config.SizeList(key, {0, static_cast<double>(vocab_size - 1)},
                      kMaxTokens));
  std::vector<int32_t> tokens;
  for (const size_t token : stated.value_or(std::vector<size_t>())) {
    tokens.push_back(static_cast<int32_t>(token));
  }
  return tokens;
}

}  // namespace

absl::Status AddGeneratedTokens(const std::string& directory,
                                ModelConfig& model) {
  const std::string path = absl::StrCat(directory, "/generation_config.json");
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return absl::OkStatus();
  if (!text.ok()) return text.status();
  STEADYSTATE_ASSIGN_OR_RETURN(const Config config, Config::Parse(*text, path));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ends,
      ReadTokens(config, "eos_token_id", model.vocab_size));
  for (const int32_t token : ends) {
    if (std::ranges::count(model.eos_tokens, token) == 0) {
      model.eos_tokens.push_back(token);
    }
  }
  if (!model.bos_tokens.empty()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.bos_tokens, ReadTokens(config, "bos_token_id", model.vocab_size));
  return absl::OkStatus();
}

}  // namespace steadystate
