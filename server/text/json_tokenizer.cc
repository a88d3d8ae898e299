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
#include "server/text/bpe.h"
#include "server/text/json_fields.h"
#include "server/text/normalizer.h"
#include "server/text/post_processor.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/prefix_table.h"
#include "server/text/token_decoder.h"
#include "server/text/tokenizer_factory.h"
#include "server/text/unicode.h"

namespace steadystate {

// A token that is found in text before anything else is done to it.
struct AddedToken {
  std::string content;
  bool special = false;      // stands for no text
  bool single_word = false;  // only if no word character is beside it
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;  // and after it
};

// The "added_tokens" of a tokenizer.json. Immutable; thread-safe.
class AddedTokens {
 public:
  // Text between added tokens, or one of them.
  struct Segment {
    absl::string_view text;
    int32_t token;  // -1: text
  };

  // A token that `bpe` has, too, has its id there. One whose id is `vocab_size`
  // or more, as checkpoints have whose embedding was never widened, is left out
  // with a warning. INVALID_ARGUMENT for what is malformed.
  static absl::StatusOr<AddedTokens> FromJson(
      const nlohmann::json& list, const Bpe& bpe, const Normalizer& normalizer,
      size_t vocab_size, std::vector<std::string>& warnings);

  // Cuts text as it came, at the tokens that are looked for there ...
  std::vector<Segment> CutRaw(absl::string_view text) const;
  // ... and text that was normalized, at those that are normalized, too.
  std::vector<Segment> CutNormalized(absl::string_view text) const;

  // By id. `content` is that of the file, or what the normalizer made of it.
  const absl::flat_hash_map<int32_t, AddedToken>& tokens() const {
    return tokens_;
  }

 private:
  std::vector<Segment> Cut(absl::string_view text,
                           const PrefixTable& table) const;

  absl::flat_hash_map<int32_t, AddedToken> tokens_;
  PrefixTable raw_;
  PrefixTable normalized_;
};

namespace {

using nlohmann::json;

// Bounds the time to look for tokens in a text.
constexpr size_t kMaxContentBytes = 1024;
constexpr size_t kMaxIds = size_t{1} << 31;

absl::Status CheckSize(absl::string_view content) {
  if (content.size() <= kMaxContentBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("an added token of ", content.size(), " bytes, at most ",
                   kMaxContentBytes));
}

absl::StatusOr<AddedToken> ReadToken(const json& entry) {
  AddedToken token;
  STEADYSTATE_ASSIGN_OR_RETURN(token.content, StringMember(entry, "content"));
  STEADYSTATE_ASSIGN_OR_RETURN(token.special,
                               BoolMember(entry, "special", false));
  STEADYSTATE_ASSIGN_OR_RETURN(token.single_word,
                               BoolMember(entry, "single_word", false));
  STEADYSTATE_ASSIGN_OR_RETURN(token.strip_left,
                               BoolMember(entry, "lstrip", false));
  STEADYSTATE_ASSIGN_OR_RETURN(token.strip_right,
                               BoolMember(entry, "rstrip", false));
  STEADYSTATE_RETURN_IF_ERROR(CheckSize(token.content));
  return token;
}

bool IsSingleWord(absl::string_view text, size_t begin, size_t end) {
  return (begin == 0 ||
          !IsWordCharacter(LastCharacter(text.substr(0, begin)).code)) &&
         (end == text.size() ||
          !IsWordCharacter(FirstCharacter(text.substr(end)).code));
}

// The place before the white space that `text` ends in, at least `least`.
size_t WithoutSpaceAtEnd(absl::string_view text, size_t least) {
  while (text.size() > least) {
    const Character last = LastCharacter(text);
    if (!IsWhiteSpace(last.code)) break;
    text.remove_suffix(last.bytes);
  }
  return text.size();
}

size_t SpaceAtStart(absl::string_view text) {
  absl::string_view rest = text;
  while (!rest.empty() && IsWhiteSpace(FirstCharacter(rest).code)) {
    rest.remove_prefix(FirstCharacter(rest).bytes);
  }
  return text.size() - rest.size();
}

}  // namespace

absl::StatusOr<AddedTokens> AddedTokens::FromJson(
    const json& list, const Bpe& bpe, const Normalizer& normalizer,
    size_t vocab_size, std::vector<std::string>& warnings) {
  AddedTokens added;
  if (list.is_null()) return added;
  if (!list.is_array()) {
    return absl::InvalidArgumentError("'added_tokens' is no array");
  }
  std::vector<PrefixTable::Entry> raw;
  std::vector<PrefixTable::Entry> normalized;
  for (const json& entry : list) {
    STEADYSTATE_ASSIGN_OR_RETURN(AddedToken token, ReadToken(entry));
    STEADYSTATE_ASSIGN_OR_RETURN(int32_t id, IndexMember(entry, "id", kMaxIds));
    STEADYSTATE_ASSIGN_OR_RETURN(
        const bool is_normalized,
        BoolMember(entry, "normalized", !token.special));
    if (token.content.empty()) continue;
    const int32_t known = bpe.IdOf(token.content);
    if (known >= 0) id = known;
    if (static_cast<size_t>(id) >= vocab_size) {
      warnings.push_back(absl::StrCat(
          "added token '", token.content, "' has the id ", id,
          ", beyond the model's ", vocab_size, " tokens: it is left out"));
      continue;
    }
    if (is_normalized) {
      STEADYSTATE_ASSIGN_OR_RETURN(token.content,
                                   normalizer.Normalize(token.content));
      STEADYSTATE_RETURN_IF_ERROR(CheckSize(token.content));
    }
    (is_normalized ? normalized : raw).push_back({token.content, id});
    added.tokens_[id] = std::move(token);
  }
  added.raw_ = PrefixTable(std::move(raw));
  added.normalized_ = PrefixTable(std::move(normalized));
  return added;
}

std::vector<AddedTokens::Segment> AddedTokens::CutRaw(
    absl::string_view text) const {
  return Cut(text, raw_);
}

std::vector<AddedTokens::Segment> AddedTokens::CutNormalized(
    absl::string_view text) const {
  return Cut(text, normalized_);
}

// Leftmost tokens, of those that begin together the longest. As in the
// reference library a token is looked for behind the last one found, not behind
// the white space that this one took; and one that is no single word is passed
// over as a whole.
std::vector<AddedTokens::Segment> AddedTokens::Cut(
    absl::string_view text, const PrefixTable& table) const {
  std::vector<Segment> segments;
  size_t cut = 0;
  for (size_t at = 0; at < text.size() && !table.empty();) {
    const PrefixTable::Match match = table.Longest(text.substr(at));
    if (match.bytes == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_.at(match.token);
    size_t begin = at;
    size_t end = at + match.bytes;
    at = end;
    if (token.single_word && !IsSingleWord(text, begin, end)) continue;
    if (token.strip_left) {
      begin = std::max(WithoutSpaceAtEnd(text.substr(0, begin), cut), cut);
    }
    if (token.strip_right) end += SpaceAtStart(text.substr(end));
    if (cut < begin) segments.push_back({text.substr(cut, begin - cut), -1});
    segments.push_back({text.substr(begin, end - begin), match.token});
    cut = end;
  }
  if (cut != text.size()) segments.push_back({text.substr(cut), -1});
  return segments;
}

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

  // What each token stands for, once. INVALID_ARGUMENT if a pattern of the
  // decoder takes too long over one of them.
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
      absl::string_view text) const override;
  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }
  std::string Decode(std::span<const int32_t> tokens) const override;

 private:
  // Text between added tokens.
  absl::Status EncodeText(absl::string_view text, bool first,
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

absl::StatusOr<std::vector<int32_t>> JsonTokenizer::Encode(
    absl::string_view text) const {
  const std::string utf8 = ToUtf8(text);
  std::vector<int32_t> tokens;
  tokens.reserve(utf8.size() / 3);
  for (const AddedTokens::Segment& segment : steps_.added.CutRaw(utf8)) {
    if (segment.token >= 0) {
      tokens.push_back(segment.token);
    } else {
      STEADYSTATE_RETURN_IF_ERROR(
          EncodeText(segment.text, segment.text.data() == utf8.data(), tokens));
    }
  }
  return tokens;
}

absl::Status JsonTokenizer::EncodeText(absl::string_view text, bool first,
                                       std::vector<int32_t>& to) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string normal,
                               steps_.normalizer.Normalize(std::string(text)));
  for (const AddedTokens::Segment& segment :
       steps_.added.CutNormalized(normal)) {
    if (segment.token >= 0) {
      to.push_back(segment.token);
      continue;
    }
    const bool at_start = first && segment.text.data() == normal.data();
    STEADYSTATE_ASSIGN_OR_RETURN(
        const std::vector<std::string> words,
        steps_.pre_tokenizer.Words(std::string(segment.text), at_start));
    for (const std::string& word : words) steps_.bpe.AppendTokens(word, to);
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
      steps.bpe, Bpe::FromJson(MemberOrNull(file, "model"), vocab_size));
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

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size,
    std::vector<std::string>& warnings) {
  STEADYSTATE_ASSIGN_OR_RETURN(const json file, ParseJson(text, what, kLimits));
  auto steps = ReadSteps(file, vocab_size, warnings);
  if (!steps.ok()) {
    return absl::Status(steps.status().code(),
                        absl::StrCat(what, ": ", steps.status().message()));
  }
  auto tokenizer =
      std::make_unique<JsonTokenizer>(*std::move(steps), vocab_size);
  STEADYSTATE_RETURN_IF_ERROR(tokenizer->DecodeVocabulary());
  return tokenizer;
}

}  // namespace steadystate
