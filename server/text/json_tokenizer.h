#ifndef STEADYSTATE_SERVER_TEXT_JSON_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_JSON_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// The tokenizer of a tokenizer.json with a model of type BPE. `text` is the
// file's, `what` names it in messages. INVALID_ARGUMENT for what is malformed
// or does not fit a model of `vocab_size` tokens; UNIMPLEMENTED for steps or
// options that are not supported. "truncation", "padding" and "post_processor"
// are not read: the server neither cuts text nor adds tokens. What was left out
// is added to `warnings`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size,
    std::vector<std::string>& warnings);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_JSON_TOKENIZER_H_
