#include "server/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"

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

// What becomes an AddedTokens::Table.
struct Entries {
  std::vector<PrefixTable::Entry> all;
  std::vector<PrefixTable::Entry> blanks;
};

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
  added.marks_.resize(vocab_size);
  Entries raw;
  Entries normalized;
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
    const bool blank = IsBlank(token.content);
    if (is_normalized) {
      STEADYSTATE_ASSIGN_OR_RETURN(token.content,
                                   normalizer.Normalize(token.content));
      STEADYSTATE_RETURN_IF_ERROR(CheckSize(token.content));
    }
    Entries& entries = is_normalized ? normalized : raw;
    entries.all.push_back({token.content, id});
    if (blank) entries.blanks.push_back({token.content, id});
    added.marks_[static_cast<size_t>(id)] = !blank;
    added.tokens_[id] = std::move(token);
  }
  added.raw_ = {PrefixTable(std::move(raw.all)),
                PrefixTable(std::move(raw.blanks))};
  added.normalized_ = {PrefixTable(std::move(normalized.all)),
                       PrefixTable(std::move(normalized.blanks))};
  return added;
}

namespace {

// Finds the tokens of a table in a text with marks, going forward.
class Finder {
 public:
  Finder(const MarkedText& marked, const PrefixTable& all,
         const PrefixTable& blanks)
      : text_(marked.text),
        literal_(MarksOrNone(marked.literal)),
        all_(all),
        blanks_(blanks) {}

  // The longest at `at`, not less than that of the call before.
  PrefixTable::Match At(size_t at) {
    if (literal_.empty()) return all_.Longest(text_.substr(at));
    if (next_literal_ < at || at == 0) {
      next_literal_ = std::min(literal_.find(kLiteral, at), text_.size());
    }
    const PrefixTable::Match match =
        all_.Longest(text_.substr(at, next_literal_ - at));
    const PrefixTable::Match blank = blanks_.Longest(text_.substr(at));
    return blank.bytes > match.bytes ? blank : match;
  }

  absl::string_view MarksOf(size_t begin, size_t end) const {
    return literal_.empty() ? literal_
                            : MarksOrNone(literal_.substr(begin, end - begin));
  }

 private:
  const absl::string_view text_;
  const absl::string_view literal_;
  const PrefixTable& all_;
  const PrefixTable& blanks_;
  size_t next_literal_ = 0;
};

}  // namespace

// Leftmost tokens, of those that begin together the longest. As in the
// reference library a token is looked for behind the last one found, not behind
// the white space that this one took; and one that is no single word is passed
// over as a whole.
std::vector<AddedTokens::Segment> AddedTokens::Cut(const MarkedText& marked,
                                                   const Table& table) const {
  const absl::string_view text = marked.text;
  std::vector<Segment> segments;
  Finder finder(marked, table.all, table.blanks);
  const auto add = [&](size_t begin, size_t end, int32_t token) {
    segments.push_back(
        {text.substr(begin, end - begin), finder.MarksOf(begin, end), token});
  };
  size_t cut = 0;
  for (size_t at = 0; at < text.size() && !table.all.empty();) {
    const PrefixTable::Match match = finder.At(at);
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
    if (cut < begin) add(cut, begin, -1);
    add(begin, end, match.token);
    cut = end;
  }
  if (cut != text.size()) add(cut, text.size(), -1);
  return segments;
}

}  // namespace steadystate
