#ifndef STEADYSTATE_SERVER_TEXT_CHAT_TEMPLATE_H_
#define STEADYSTATE_SERVER_TEXT_CHAT_TEMPLATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace steadystate {

// So long may a template be: the longest that are known have 20 KiB, and what
// describes a model is to fit the smallest message.
inline constexpr size_t kMaxChatTemplateBytes = size_t{40} << 10;

// How a checkpoint's conversations are written as prompts. Its clients render
// that: it is a Jinja template, and those who write one need not be trusted.
struct ChatTemplate {
  std::string text;       // empty: there is none
  std::string bos_token;  // the texts of the tokens that templates write;
  std::string eos_token;  // empty: the checkpoint does not say
  std::vector<std::string> warnings;  // what was left out, and why
};

// Of the checkpoint in `directory`: chat_template.jinja, else "chat_template"
// of tokenizer_config.json, of several the one named "default"; the tokens of
// tokenizer_config.json. Those that it does not name are read from
// special_tokens_map.json, unless it has "added_tokens_decoder": transformers
// passes over the other file then. What is malformed or too long is left out
// with a warning: the model serves without it. NOT_FOUND or INVALID_ARGUMENT,
// as ReadModelFile, for a file that the model has and that was not fetched.
absl::StatusOr<ChatTemplate> ReadChatTemplate(const std::string& directory);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_CHAT_TEMPLATE_H_
