#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "nlohmann/json_fwd.hpp"
#include "server/base/json.h"
#include "server/base/status_macros.h"
#include "server/text/added_tokens.h"
#include "server/text/bpe.h"
#include "server/text/json_fields.h"
#include "server/text/marked_text.h"
#include "server/text/normalizer.h"
#include "server/text/post_processor.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/regex.h"
#include "server/text/token_decoder.h"
#include "server/text/tokenizer_factory.h"
#include "server/text/unicode.h"

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

// What patterns of the normalizer and the decoder may take while a file is
// read, over all of its tokens: some seconds for the largest vocabularies.
// Patterns in use take less than a hundred steps a token.
constexpr uint64_t kBaseSteps = 20'000'000;
constexpr uint64_t kMaxStepsPerToken = 1000;

// The steps that a tokenizer.json describes.
struct Steps {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  AddedTokens added;
  TokenDecoder decoder;
  std::vector<int32_t> text_prefix;
};

class JsonTokenizer final : public Tokenizer {
 public:
  JsonTokenizer(Steps steps, size_t vocab_size);

  // What each token stands for, once. Errors as Regex::Cut.
  absl::Status DecodeVocabulary();

  absl::string_view kind() const override {
    if (steps_.decoder.byte_level()) return "byte_level_bpe";
    return steps_.bpe.byte_fallback() ? "byte_fallback_bpe" : "bpe";
  }
  bool HasToken(int32_t token) const override {
    return has_token_[static_cast<size_t>(token)];
  }
  std::span<const int32_t> text_prefix() const override {
    return steps_.text_prefix;
  }
  std::vector<SpecialToken> special_tokens() const override;
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    return EncodeMarked({.text = ToUtf8(text), .literal = ""});
  }
  absl::StatusOr<std::vector<int32_t>> EncodeParts(
      std::span<const TextPart> parts) const override {
    return EncodeMarked(MarkedUtf8(parts));
  }
  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }
  std::string Decode(std::span<const int32_t> tokens) const override;

 private:
  // REQUIRES: `text` is UTF-8.
  absl::StatusOr<std::vector<int32_t>> EncodeMarked(
      const MarkedText& text) const;
  // Text between added tokens.
  absl::Status EncodeText(MarkedText text, bool first,
                          std::vector<int32_t>& to) const;

  const Steps steps_;
  // By id: spelled as in the file, and the bytes within a text. Both are empty
  // for special tokens and for ids that are no token's.
  std::vector<std::string> spelled_;
  std::vector<std::string> bytes_;
  std::vector<bool> has_token_;  // by id
};

JsonTokenizer::JsonTokenizer(Steps steps, size_t vocab_size)
    : steps_(std::move(steps)),
      spelled_(vocab_size),
      bytes_(vocab_size),
      has_token_(vocab_size) {
  for (const auto& [token, id] : steps_.bpe.vocabulary()) {
    spelled_[static_cast<size_t>(id)] = token;
    has_token_[static_cast<size_t>(id)] = true;
  }
  for (const auto& [id, token] : steps_.added.tokens()) {
    spelled_[static_cast<size_t>(id)] = token.special ? "" : token.content;
    has_token_[static_cast<size_t>(id)] = true;
  }
}

absl::Status JsonTokenizer::DecodeVocabulary() {
  for (size_t id = 0; id < spelled_.size(); ++id) {
    STEADYSTATE_ASSIGN_OR_RETURN(bytes_[id],
                                 steps_.decoder.Decode(spelled_[id], false));
    // Decode relies on it.
    STEADYSTATE_RETURN_IF_ERROR(
        steps_.decoder.Decode(spelled_[id], true).status());
  }
  return absl::OkStatus();
}

std::vector<SpecialToken> JsonTokenizer::special_tokens() const {
  std::vector<SpecialToken> special;
  for (const auto& [id, token] : steps_.added.tokens()) {
    if (token.special) special.push_back({.id = id, .text = token.content});
  }
  std::ranges::sort(special, {}, &SpecialToken::id);
  return special;
}

absl::StatusOr<std::vector<int32_t>> JsonTokenizer::EncodeMarked(
    const MarkedText& text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.text.size() / 3);
  for (const AddedTokens::Segment& segment : steps_.added.CutRaw(text)) {
    if (segment.token >= 0) {
      tokens.push_back(segment.token);
    } else {
      STEADYSTATE_RETURN_IF_ERROR(
          EncodeText({std::string(segment.text), std::string(segment.literal)},
                     segment.text.data() == text.text.data(), tokens));
    }
  }
  return tokens;
}

// The model might join to an added token what was not taken for one, as some
// files' lists of merges would, or have a whole word as a token: where a byte
// is literal it goes without these.
absl::Status JsonTokenizer::EncodeText(MarkedText text, bool first,
                                       std::vector<int32_t>& to) const {
  const std::vector<bool> none;
  STEADYSTATE_ASSIGN_OR_RETURN(const MarkedText normal,
                               steps_.normalizer.Normalize(std::move(text)));
  for (const AddedTokens::Segment& segment :
       steps_.added.CutNormalized(normal)) {
    if (segment.token >= 0) {
      to.push_back(segment.token);
      continue;
    }
    const bool at_start = first && segment.text.data() == normal.text.data();
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<std::string> words,
        steps_.pre_tokenizer.Words(std::string(segment.text), at_start));
    const std::vector<bool>& without =
        segment.literal.empty() ? none : steps_.added.marks();
    for (const std::string& word : words) {
      steps_.bpe.AppendTokensBut(without, word, to);
    }
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
      text = steps_.decoder.Decode(spelled, true).value();
    } else {
      AppendBytes(token, text);
    }
    first = false;
  }
  steps_.decoder.StripText(text);
  return text;
}

// Steps that each double a text are a few lines in a file and more than any
// memory at work.
absl::Status CheckGrowth(const Steps& steps) {
  const double text = steps.normalizer.growth().PerByte() *
                      steps.pre_tokenizer.growth().PerByte();
  if (text > kMaxTextGrowth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the normalizer and the pre-tokenizer can make a text ",
                     text, " times as long, at most ", kMaxTextGrowth));
  }
  const double token = steps.decoder.growth().PerByte();
  if (token > kMaxTokenGrowth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the decoder can make a token ", token,
                     " times as long, at most ", kMaxTokenGrowth));
  }
  return absl::OkStatus();
}

absl::StatusOr<Steps> ReadSteps(const json& file, size_t vocab_size,
                                std::vector<std::string>& warnings) {
  if (!file.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  Steps steps;
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps.bpe, Bpe::FromJson(MemberOrNull(file, "model"),
                               MemberOrNull(file, "added_tokens"), vocab_size));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps.normalizer, Normalizer::FromJson(MemberOrNull(file, "normalizer")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps.pre_tokenizer,
      PreTokenizer::FromJson(MemberOrNull(file, "pre_tokenizer")));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps.decoder, TokenDecoder::FromJson(MemberOrNull(file, "decoder")));
  STEADYSTATE_RETURN_IF_ERROR(CheckGrowth(steps));
  STEADYSTATE_ASSIGN_OR_RETURN(
      steps.added,
      AddedTokens::FromJson(MemberOrNull(file, "added_tokens"), steps.bpe,
                            steps.normalizer, vocab_size, warnings));
  auto prefix = TextPrefixOf(MemberOrNull(file, "post_processor"), vocab_size);
  if (prefix.ok()) {
    steps.text_prefix = *std::move(prefix);
  } else {
    // It has no part in what a text becomes here.
    warnings.push_back(absl::StrCat("'post_processor' is not understood: ",
                                    prefix.status().message()));
  }
  return steps;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeFromFile(
    const json& file, size_t vocab_size, std::vector<std::string>& warnings) {
  const SearchBudget budget(kBaseSteps + kMaxStepsPerToken * vocab_size);
  STEADYSTATE_ASSIGN_OR_RETURN(Steps steps,
                               ReadSteps(file, vocab_size, warnings));
  auto tokenizer =
      std::make_unique<JsonTokenizer>(std::move(steps), vocab_size);
  STEADYSTATE_RETURN_IF_ERROR(tokenizer->DecodeVocabulary());
  return tokenizer;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size,
    std::vector<std::string>& warnings) {
  STEADYSTATE_ASSIGN_OR_RETURN(const json file, ParseJson(text, what, kLimits));
  auto made = MakeFromFile(file, vocab_size, warnings);
  if (made.ok()) return made;
  return absl::Status(made.status().code(),
                      absl::StrCat(what, ": ", made.status().message()));
}

}  // namespace steadystate
