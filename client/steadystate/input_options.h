#ifndef STEADYSTATE_CLIENT_STEADYSTATE_INPUT_OPTIONS_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_INPUT_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/steadystate/input.h"
#include "client/steadystate/options.h"

namespace steadystate::client {

// The options that say what a command absorbs: --NAME TEXT, --NAME_file FILE or
// --token_ids_file FILE, at most one of them. Must not be moved once a table
// points at it.
class InputOptions {
 public:
  // `name`: "prompt" or "text".
  explicit InputOptions(const std::string& name);
  InputOptions(const InputOptions&) = delete;
  InputOptions& operator=(const InputOptions&) = delete;

  // Appends the options, with this object as their target.
  void AppendTo(OptionTable& table);

  // Reads what the options name; nothing if none was given. INVALID_ARGUMENT if
  // more than one was, or if the content is neither UTF-8 nor token ids.
  absl::StatusOr<std::optional<Input>> Read() const;

  // The names of the options, for messages: "--text, --text_file or ...".
  std::string Names() const;

 private:
  const std::string name_;
  const std::string file_name_;
  std::optional<std::string> text_;
  std::optional<std::string> text_file_;
  std::optional<std::string> ids_file_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_INPUT_OPTIONS_H_
