#include "tests/fuzz/use_tokenizer.h"

#include "absl/status/status.h"
#include "tests/fuzz/require.h"

namespace steadystate {

namespace {

void UseParts(const Tokenizer& tokenizer, absl::string_view text,
              const std::vector<int32_t>& tokens, size_t vocab_size) {
  const size_t half = text.size() / 2;
  TextPart parts[] = {{text.substr(0, half)}, {text.substr(half)}};
  const auto same = tokenizer.EncodeParts(parts);
  Require(same.ok() && *same == tokens, "parts are one text");
  parts[1].literal = true;
  const auto literal = tokenizer.EncodeParts(parts);
  Require(literal.ok() || absl::IsInvalidArgument(literal.status()),
          "literal parts are encoded, or refused");
  if (!literal.ok()) return;
  for (const int32_t token : *literal) {
    Require(token >= 0 && static_cast<size_t>(token) < vocab_size,
            "tokens of literal parts are the model's");
  }
}

}  // namespace

void UseTokenizer(const Tokenizer& tokenizer, size_t vocab_size) {
  constexpr absl::string_view kTexts[] = {
      "",
      "The cat's 12345 hats,  they've\n\n \t<s>x</s> <|endoftext|>",
      "\xc3\xa9t\xc3\xa9 e\xcc\x81 \xe2\x96\x81\xef\xb7\xba\xf0\x9f\x98\x80",
      "\xff\xc3\xe2\x82\xf0\x9f\x98 \xed\xa0\x80 \xf4\x90\x80\x80",
      absl::string_view("\0a\0", 3),
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  };
  for (const absl::string_view text : kTexts) {
    const auto tokens = tokenizer.Encode(text);
    // A pattern may take too long; nothing else is amiss with any text.
    Require(tokens.ok() || absl::IsInvalidArgument(tokens.status()),
            "texts are encoded, or refused");
    if (!tokens.ok()) continue;
    for (const int32_t token : *tokens) {
      Require(token >= 0 && static_cast<size_t>(token) < vocab_size,
              "tokens are the model's");
      Require(tokenizer.HasToken(token), "tokens are the tokenizer's");
    }
    tokenizer.Decode(*tokens);
    UseParts(tokenizer, text, *tokens, vocab_size);
  }
  for (const int32_t token : tokenizer.text_prefix()) {
    Require(token >= 0 && static_cast<size_t>(token) < vocab_size,
            "what goes before a text is the model's");
  }
  std::vector<int32_t> all;
  std::string bytes;
  for (size_t i = 0; i < vocab_size; ++i) {
    all.push_back(static_cast<int32_t>(i));
    tokenizer.AppendBytes(all.back(), bytes);
  }
  tokenizer.Decode(all);
}

}  // namespace steadystate
