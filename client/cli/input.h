#ifndef STEADYSTATE_CLIENT_CLI_INPUT_H_
#define STEADYSTATE_CLIENT_CLI_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/options/options.h"
#include "client/options/utf8.h"

namespace steadystate::client {

// What a session is to absorb: text in UTF-8, or token ids.
using Input = std::variant<std::string, std::vector<int32_t>>;

// Bytes of text or number of token ids.
size_t Length(const Input& input);

// Makes it what a GenerateRequest or ScoreRequest is to absorb.
template <typename Request>
void SetInput(const Input& input, Request& request) {
  if (const auto* text = std::get_if<std::string>(&input)) {
    request.set_text(*text);
  } else {
    const auto& ids = std::get<std::vector<int32_t>>(input);
    request.mutable_tokens()->mutable_ids()->Assign(ids.begin(), ids.end());
  }
}

// What is read of a file: it is all in memory, and some files have no end.
inline constexpr size_t kMaxFileBytes = size_t{256} << 20;

// Reads a whole file, or standard input for "-". NOT_FOUND or another code,
// with the path and the cause; INVALID_ARGUMENT: it has more than
// kMaxFileBytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Reads a JSON array of token ids. INVALID_ARGUMENT, with the index of what is
// not a token id.
absl::StatusOr<std::vector<int32_t>> ParseTokenIds(absl::string_view json);

// Cuts an input into consecutive pieces of `length` bytes or token ids, the
// last one shorter, so that an input of any length fits into messages. Text is
// cut between characters, which makes pieces up to 3 bytes shorter. An empty
// input has no pieces.
// REQUIRES: length >= 4.
std::vector<Input> Cut(const Input& input, size_t length);

// The options that say what a command absorbs: --NAME TEXT, --NAME_file FILE or
// --token_ids_file FILE, or the command's only argument, TEXT; at most one of
// them. Must not be moved once a table points at it.
class InputOptions {
 public:
  // `name`: "prompt" or "text". `letter`: of the text's option; 0: none.
  explicit InputOptions(const std::string& name, char letter = 0);
  InputOptions(const InputOptions&) = delete;
  InputOptions& operator=(const InputOptions&) = delete;

  // Appends the options, with this object as their target.
  void AppendTo(OptionTable& table);

  // Takes a command's arguments, of which one may be the text. INVALID_ARGUMENT
  // if there are more: most probably the quotes are missing.
  absl::Status TakeArguments(const std::vector<std::string>& arguments);

  // Reads what the options name; nothing if none was given. INVALID_ARGUMENT if
  // more than one was, or if the content is neither UTF-8 nor token ids.
  absl::StatusOr<std::optional<Input>> Read() const;

  // Where what was given comes from, for messages: "FILE" or "--text".
  std::string Source() const;

  // The names of the options, for messages: "--text, --text_file or ...".
  std::string Names() const;

 private:
  const std::string name_;
  const std::string file_name_;
  const char letter_;
  std::optional<std::string> text_;
  std::optional<std::string> argument_;
  std::optional<std::string> text_file_;
  std::optional<std::string> ids_file_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_INPUT_H_
