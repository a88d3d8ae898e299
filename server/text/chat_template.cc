#include "server/text/chat_template.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/json.h"
#include "server/base/mapped_file.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr absl::string_view kConfig = "tokenizer_config.json";
// Those of large vocabularies list each added token.
constexpr size_t kMaxConfigBytes = size_t{16} << 20;
// Of a token such as "<|im_end|>".
constexpr size_t kMaxTokenBytes = 256;

// The file's text; empty if it is not there.
std::string ReadIfThere(const std::string& path, size_t max_bytes,
                        std::vector<std::string>& warnings) {
  absl::StatusOr<std::string> text = ReadFile(path, max_bytes);
  if (text.ok() && ToUtf8(*text) != *text) {
    text = absl::InvalidArgumentError(absl::StrCat(path, " is not UTF-8"));
  }
  if (text.ok()) return *std::move(text);
  if (!absl::IsNotFound(text.status())) {
    warnings.push_back(absl::StrCat("left out: ", text.status().message()));
  }
  return "";
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

std::string TokenOf(const json& config, absl::string_view name) {
  std::string text = TextOf(config, name);
  return text.size() <= kMaxTokenBytes ? text : "";
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

ChatTemplate ReadChatTemplate(const std::string& directory) {
  ChatTemplate chat;
  chat.text = ReadIfThere(absl::StrCat(directory, "/chat_template.jinja"),
                          kMaxChatTemplateBytes, chat.warnings);
  const std::string config = ReadIfThere(absl::StrCat(directory, "/", kConfig),
                                         kMaxConfigBytes, chat.warnings);
  if (config.empty()) return chat;
  const absl::StatusOr<json> parsed = ParseJson(config, kConfig);
  if (!parsed.ok() || !parsed->is_object()) {
    chat.warnings.push_back(absl::StrCat(
        "left out: ", parsed.ok() ? absl::StrCat(kConfig, " is no object")
                                  : parsed.status().message()));
    return chat;
  }
  chat.bos_token = TokenOf(*parsed, "bos_token");
  chat.eos_token = TokenOf(*parsed, "eos_token");
  if (!chat.text.empty()) return chat;
  chat.text = TemplateOf(*parsed);
  if (chat.text.size() > kMaxChatTemplateBytes) {
    chat.warnings.push_back(absl::StrCat(
        "left out: the chat template of ", kConfig, " has ", chat.text.size(),
        " bytes; at most ", kMaxChatTemplateBytes));
    chat.text.clear();
  }
  return chat;
}

}  // namespace steadystate
