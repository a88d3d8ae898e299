#ifndef STEADYSTATE_SERVER_TEXT_RWKV_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_RWKV_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// The bytes of a literal as Python's repr() writes it: 'text' or "text", which
// becomes UTF-8, or b'bytes'. INVALID_ARGUMENT for anything else, among it
// surrogates, octal escapes and \N{...}, which repr() does not write.
absl::StatusOr<std::string> ParsePythonLiteral(absl::string_view literal);

// The tokenizer of an RWKV vocabulary (rwkv_vocab_v20230424.txt): of the tokens
// that the rest of the text begins with the longest, over and over. `text` is
// the file's, each line an id, a Python literal and its length in bytes; `what`
// names it in messages.
//
// INVALID_ARGUMENT for a line of another form, a length that is not the
// literal's, an id of `vocab_size` or more or given twice, or a byte that is no
// token: every text must have tokens. Ids that are not in the file, such as the
// 0 that ends texts, stand for no text.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeRwkvTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_RWKV_TOKENIZER_H_
