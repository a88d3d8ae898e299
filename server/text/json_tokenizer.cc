#include "server/text/json_tokenizer.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/json.h"
#include "server/base/status_macros.h"
#include "server/text/added_tokens.h"
#include "server/text/bpe.h"
#include "server/text/json_fields.h"
#include "server/text/normalizer.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/token_decoder.h"
#include "server/text/utf8.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr JsonLimits kLimits = {.max_bytes = size_t{64} << 20,
                                .max_depth = 16,
                                .max_values = 8'000'000,
                                .max_memory = size_t{512} << 20};

// How many times as long a text may become before it is cut to words, and a
// token by the decoder. The most that is of use is NFKC, 11, and "Metaspace",
// 6; a decoder's "Replace" makes tokens shorter.
constexpr double kMaxTextGrowth = 72;
constexpr double kMaxTokenGrowth = 4;

// The steps that a tokenizer.json describes.
struct Parts {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokens added;
  TokenDecoder decoder;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(Parts parts, size_t vocab_size);

  // What each token stands for, once. INVALID_ARGUMENT if a pattern of the
  // decoder takes too long over one of them.
  absl::Status DecodeVocabulary();

  absl::string_view kind() const override {
    if (parts_.decoder.byte_level()) return "byte_level_bpe";
    return parts_.bpe.byte_fallback() ? "byte_fallback_bpe" : "bpe";
  }
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }
  std::string Decode(std::span<const int32_t> tokens) const override;

 private:
  // Text between added tokens.
  absl::Status EncodeText(absl::string_view text, bool first,
                          std::vector<int32_t>& to) const;

  const Parts parts_;
  // By id: spelled as in the file, and the bytes within a text. Both are empty
  // for special tokens and for ids that are no token's.
  std::vector<std::string> spelled_;
  std::vector<std::string> bytes_;
};

JsonTokenizer::JsonTokenizer(Parts parts, size_t vocab_size)
    : parts_(std::move(parts)), spelled_(vocab_size), bytes_(vocab_size) {
  for (const auto& [token, id] : parts_.bpe.vocabulary()) {
    spelled_[static_cast<size_t>(id)] = token;
  }
  for (const auto& [id, token] : parts_.added.tokens()) {
    spelled_[static_cast<size_t>(id)] = token.special ? "" : token.content;
  }
}

absl::Status JsonTokenizer::DecodeVocabulary() {
  for (size_t id = 0; id < spelled_.size(); ++id) {
    STEADYSTATE_ASSIGN_OR_RETURN(bytes_[id],
                                 parts_.decoder.Decode(spelled_[id], false));
    // Decode relies on it.
    STEADYSTATE_RETURN_IF_ERROR(
        parts_.decoder.Decode(spelled_[id], true).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> JsonTokenizer::Encode(
    absl::string_view text) const {
  const std::string utf8 = ToUtf8(text);
  std::vector<int32_t> tokens;
  tokens.reserve(utf8.size() / 3);
  for (const AddedTokens::Part& part : parts_.added.CutRaw(utf8)) {
    if (part.token >= 0) {
      tokens.push_back(part.token);
    } else {
      STEADYSTATE_RETURN_IF_ERROR(
          EncodeText(part.text, part.text.data() == utf8.data(), tokens));
    }
  }
  return tokens;
}

absl::Status JsonTokenizer::EncodeText(absl::string_view text, bool first,
                                       std::vector<int32_t>& to) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string normal,
                               parts_.normalizer.Normalize(std::string(text)));
  for (const AddedTokens::Part& part : parts_.added.CutNormalized(normal)) {
    if (part.token >= 0) {
      to.push_back(part.token);
      continue;
    }
    const bool at_start = first && part.text.data() == normal.data();
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<std::string> words,
        parts_.pre_tokenizer.Words(std::string(part.text), at_start));
    for (const std::string& word : words) parts_.bpe.AppendTokens(word, to);
  }
  return absl::OkStatus();
}

std::string JsonTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  bool first = true;
  for (const int32_t token : tokens) {
    const std::string& spelled = spelled_[static_cast<size_t>(token)];
    if (spelled.empty()) continue;
    if (first) {
      text = parts_.decoder.Decode(spelled, true).value();
    } else {
      AppendBytes(token, text);
    }
    first = false;
  }
  parts_.decoder.StripText(text);
  return text;
}

// Steps that each double a text are a few lines in a file and more than any
// memory at work.
absl::Status CheckGrowth(const Parts& parts) {
  const double text = parts.normalizer.growth().PerByte() *
                      parts.pre_tokenizer.growth().PerByte();
  if (text > kMaxTextGrowth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the normalizer and the pre-tokenizer can make a text ",
                     text, " times as long, at most ", kMaxTextGrowth));
  }
  const double token = parts.decoder.growth().PerByte();
  if (token > kMaxTokenGrowth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the decoder can make a token ", token,
                     " times as long, at most ", kMaxTokenGrowth));
  }
  return absl::OkStatus();
}

absl::StatusOr<Parts> ReadParts(const json& file, size_t vocab_size,
                                std::vector<std::string>& warnings) {
  if (!file.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  Parts parts;
  STEADYSTATE_ASSIGN_OR_RETURN(
      parts.bpe, Bpe::FromJson(MemberOrNull(file, "model"), vocab_size));
  STEADYSTATE_ASSIGN_OR_RETURN(
      parts.normalizer, Normalizer::FromJson(MemberOrNull(file, "normalizer")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      parts.pre_tokenizer,
      PreTokenizer::FromJson(MemberOrNull(file, "pre_tokenizer")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      parts.decoder, TokenDecoder::FromJson(MemberOrNull(file, "decoder")));
  STEADYSTATE_RETURN_IF_ERROR(CheckGrowth(parts));
  STEADYSTATE_ASSIGN_OR_RETURN(
      parts.added,
      AddedTokens::FromJson(MemberOrNull(file, "added_tokens"), parts.bpe,
                            parts.normalizer, vocab_size, warnings));
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size,
    std::vector<std::string>& warnings) {
  STEADYSTATE_ASSIGN_OR_RETURN(const json file, ParseJson(text, what, kLimits));
  auto parts = ReadParts(file, vocab_size, warnings);
  if (!parts.ok()) {
    return absl::Status(parts.status().code(),
                        absl::StrCat(what, ": ", parts.status().message()));
  }
  auto tokenizer =
      std::make_unique<JsonTokenizer>(*std::move(parts), vocab_size);
  STEADYSTATE_RETURN_IF_ERROR(tokenizer->DecodeVocabulary());
  return tokenizer;
}

}  // namespace steadystate
