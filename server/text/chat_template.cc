#include "server/text/chat_template.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/fetched_file.h"
#include "server/base/json.h"
#include "server/base/status_macros.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr absl::string_view kConfig = "tokenizer_config.json";
constexpr absl::string_view kTokens = "special_tokens_map.json";
// Those of large vocabularies list each added token.
constexpr size_t kMaxConfigBytes = size_t{16} << 20;
// Of a token such as "<|im_end|>".
constexpr size_t kMaxSpecialTokenBytes = 256;

// The file's text; empty if it is not there or is left out.
absl::StatusOr<std::string> ReadIfThere(const std::string& path,
                                        size_t max_bytes,
                                        std::vector<std::string>& warnings) {
  absl::StatusOr<std::optional<std::string>> text =
      ReadModelFile(path, max_bytes);
  if (absl::IsNotFound(text.status()) ||
      absl::IsInvalidArgument(text.status())) {
    return text.status();
  }
  if (text.ok() && !text->has_value()) return "";
  if (text.ok() && ToUtf8(**text) != **text) {
    text = absl::InvalidArgumentError(absl::StrCat(path, " is not UTF-8"));
  }
  if (text.ok()) return **std::move(text);
  warnings.push_back(absl::StrCat("left out: ", text.status().message()));
  return "";
}

// The object of a file in `directory`; an empty one if it is not there or is
// left out.
absl::StatusOr<json> ReadObject(const std::string& directory,
                                absl::string_view name,
                                std::vector<std::string>& warnings) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string text,
                               ReadIfThere(absl::StrCat(directory, "/", name),
                                           kMaxConfigBytes, warnings));
  if (text.empty()) return json::object();
  absl::StatusOr<json> parsed = ParseJson(text, name);
  if (parsed.ok() && parsed->is_object()) return parsed;
  warnings.push_back(absl::StrCat(
      "left out: ", parsed.ok() ? absl::StrCat(name, " is no object")
                                : parsed.status().message()));
  return json::object();
}

// A string as it is, or the "content" of an object, as tokens are written too.
std::string TextOf(const json& object, absl::string_view name) {
  const auto found = object.find(std::string(name));
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_object()) return "";
  const auto content = found->find("content");
  return content != found->end() && content->is_string()
             ? content->get<std::string>()
             : "";
}

// Of the first of two objects that names it.
std::string TokenOf(const json& config, const json& other,
                    absl::string_view name) {
  std::string text = TextOf(config, name);
  if (text.empty()) text = TextOf(other, name);
  return text.size() <= kMaxSpecialTokenBytes ? text : "";
}

// One template, or several with names.
std::string TemplateOf(const json& config) {
  constexpr absl::string_view kMember = "chat_template";
  const auto found = config.find(std::string(kMember));
  if (found == config.end() || !found->is_array()) {
    return TextOf(config, kMember);
  }
  for (const json& one : *found) {
    if (one.is_object() && TextOf(one, "name") == "default") {
      return TextOf(one, "template");
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& directory) {
  ChatTemplate chat;
  STEADYSTATE_ASSIGN_OR_RETURN(
      chat.text, ReadIfThere(absl::StrCat(directory, "/chat_template.jinja"),
                             kMaxChatTemplateBytes, chat.warnings));
  STEADYSTATE_ASSIGN_OR_RETURN(const json config,
                               ReadObject(directory, kConfig, chat.warnings));
  STEADYSTATE_ASSIGN_OR_RETURN(json tokens,
                               ReadObject(directory, kTokens, chat.warnings));
  if (config.contains("added_tokens_decoder")) tokens = json::object();
  chat.bos_token = TokenOf(config, tokens, "bos_token");
  chat.eos_token = TokenOf(config, tokens, "eos_token");
  if (!chat.text.empty()) return chat;
  chat.text = TemplateOf(config);
  if (chat.text.size() > kMaxChatTemplateBytes) {
    chat.warnings.push_back(absl::StrCat(
        "left out: the chat template of ", kConfig, " has ", chat.text.size(),
        " bytes; at most ", kMaxChatTemplateBytes));
    chat.text.clear();
  }
  return chat;
}

}  // namespace steadystate
