#include "server/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace steadystate {
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

std::vector<AddedTokens::Part> AddedTokens::CutRaw(
    absl::string_view text) const {
  return Cut(text, raw_);
}

std::vector<AddedTokens::Part> AddedTokens::CutNormalized(
    absl::string_view text) const {
  return Cut(text, normalized_);
}

// Leftmost tokens, of those that begin together the longest. As in the
// reference library a token is looked for behind the last one found, not behind
// the white space that this one took; and one that is no single word is passed
// over as a whole.
std::vector<AddedTokens::Part> AddedTokens::Cut(
    absl::string_view text, const PrefixTable& table) const {
  std::vector<Part> parts;
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
    if (cut < begin) parts.push_back({text.substr(cut, begin - cut), -1});
    parts.push_back({text.substr(begin, end - begin), match.token});
    cut = end;
  }
  if (cut != text.size()) parts.push_back({text.substr(cut), -1});
  return parts;
}

}  // namespace steadystate
