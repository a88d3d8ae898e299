#define PCRE2_CODE_UNIT_WIDTH 8
#include "server/text/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

constexpr size_t kMaxPatternBytes = 16 << 10;

// White_Space, as Oniguruma's \s; PCRE2's has U+180E besides.
constexpr absl::string_view kWhiteSpace =
    "\\x{09}-\\x{0D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}"
    "\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}";

absl::Status Unsupported(absl::string_view pattern, absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("the pattern \"", pattern.substr(0, 200), "\" has ", what,
                   ", which is not supported"));
}

// Names of categories as Oniguruma has them, for PCRE2. Names of properties
// that go by more than the category, such as Alpha, are none of these: the two
// libraries know them of different versions of Unicode.
struct Category {
  absl::string_view name;  // without case, spaces, hyphens and underscores
  absl::string_view code;
};
constexpr Category kCategories[] = {
    {"any", "Any"},
    {"casedletter", "L&"},
    {"closepunctuation", "Pe"},
    {"cntrl", "Cc"},
    {"combiningmark", "M"},
    {"connectorpunctuation", "Pc"},
    {"control", "Cc"},
    {"currencysymbol", "Sc"},
    {"dashpunctuation", "Pd"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"enclosingmark", "Me"},
    {"finalpunctuation", "Pf"},
    {"format", "Cf"},
    {"initialpunctuation", "Pi"},
    {"letter", "L"},
    {"letternumber", "Nl"},
    {"lineseparator", "Zl"},
    {"lowercaseletter", "Ll"},
    {"mark", "M"},
    {"mathsymbol", "Sm"},
    {"modifierletter", "Lm"},
    {"modifiersymbol", "Sk"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"openpunctuation", "Ps"},
    {"other", "C"},
    {"otherletter", "Lo"},
    {"othernumber", "No"},
    {"otherpunctuation", "Po"},
    {"othersymbol", "So"},
    {"paragraphseparator", "Zp"},
    {"privateuse", "Co"},
    {"punct", "P"},
    {"punctuation", "P"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"spacingmark", "Mc"},
    {"symbol", "S"},
    {"titlecaseletter", "Lt"},
    {"unassigned", "Cn"},
    {"uppercaseletter", "Lu"},
};

// What PCRE2 calls a property. Longer names than categories have are scripts,
// which PCRE2 by itself widens to their extensions.
std::string PropertyOf(absl::string_view name) {
  std::string plain = absl::StrReplaceAll(absl::AsciiStrToLower(name),
                                          {{" ", ""}, {"-", ""}, {"_", ""}});
  const auto* const found =
      std::ranges::find(kCategories, plain, &Category::name);
  if (found != std::end(kCategories)) return std::string(found->code);
  return absl::StrCat(name.size() > 2 ? "sc:" : "", name);
}

// Writes a pattern of Oniguruma as one of PCRE2 that means the same.
class Translator {
 public:
  explicit Translator(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Translate() && {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        STEADYSTATE_RETURN_IF_ERROR(TranslateEscape());
      } else if (in_class_) {
        STEADYSTATE_RETURN_IF_ERROR(TranslateInClass(c));
      } else {
        STEADYSTATE_RETURN_IF_ERROR(TranslateOutside(c));
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status TranslateOutside(char c) {
    if (Next("(?") && !NextGroup()) {
      return Unsupported(pattern_, "a group or flags of an unknown kind");
    }
    if (Next("{,")) return Unsupported(pattern_, "a repetition from nothing");
    if (Next("(*")) return Unsupported(pattern_, "a verb");
    if (c == '{' && IntervalBytes() > 0) return TranslateInterval();
    if (c == '(') groups_.push_back(out_.size());
    if (c == ')' && !groups_.empty()) {
      atom_ = groups_.back();
      groups_.pop_back();
    } else if (!absl::StrContains("(*+?|", absl::string_view(&c, 1)) &&
               (static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      atom_ = out_.size();
    }
    in_class_ = c == '[';
    Take(Next("[^") ? 2 : 1);
    return absl::OkStatus();
  }

  // A plus after an interval repeats it in Ruby and forbids to go back in Perl.
  absl::Status TranslateInterval() {
    Take(IntervalBytes());
    if (!Next("+")) return absl::OkStatus();
    ++at_;
    if (Next("+") || Next("?") || Next("*") || Next("{")) {
      return Unsupported(pattern_, "repetitions of repetitions");
    }
    out_.insert(atom_, "(?:");
    absl::StrAppend(&out_, ")+");
    return absl::OkStatus();
  }

  // Of "{2}", "{2,}" or "{2,3}" here; 0: the brace is a character.
  size_t IntervalBytes() const {
    const size_t end = pattern_.find_first_not_of("0123456789,", at_ + 1);
    const bool closed = end != absl::string_view::npos && pattern_[end] == '}';
    return closed && end > at_ + 1 ? end + 1 - at_ : 0;
  }

  absl::Status TranslateInClass(char c) {
    if (c == '[') return Unsupported(pattern_, "a class within a class");
    if (Next("&&")) return Unsupported(pattern_, "an intersection");
    if (c == ']') in_class_ = false;
    Take(1);
    return absl::OkStatus();
  }

  // The letter after a backslash; what is no letter or digit is itself.
  absl::Status TranslateEscape() {
    if (at_ + 1 == pattern_.size()) {
      return absl::InvalidArgumentError("a pattern ends in a backslash");
    }
    if (!in_class_) atom_ = out_.size();
    const char letter = pattern_[at_ + 1];
    if (letter == 's' || (letter == 'S' && !in_class_)) {
      absl::StrAppend(&out_,
                      in_class_       ? ""
                      : letter == 's' ? "["
                                      : "[^",
                      kWhiteSpace, in_class_ ? "" : "]");
      at_ += 2;
      return absl::OkStatus();
    }
    if (letter == 'p' || letter == 'P') return TranslateProperty();
    if (absl::ascii_isalnum(static_cast<unsigned char>(letter)) &&
        !absl::StrContains("SdDrntfx", absl::string_view(&letter, 1))) {
      return Unsupported(pattern_, absl::StrCat("\\", std::string(1, letter)));
    }
    const size_t close = Next("\\x{") ? pattern_.find('}', at_) : at_ + 1;
    if (close == absl::string_view::npos) {
      return absl::InvalidArgumentError("a pattern has \\x{ without an end");
    }
    Take(close + 1 - at_);
    return absl::OkStatus();
  }

  absl::Status TranslateProperty() {
    const size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' ||
        close == absl::string_view::npos) {
      return Unsupported(pattern_, "a property without braces");
    }
    absl::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const bool negated = absl::StartsWith(name, "^");
    if (negated) name.remove_prefix(1);
    absl::StrAppend(&out_, pattern_.substr(at_, 3), negated ? "^" : "",
                    PropertyOf(name), "}");
    at_ = close + 1;
    return absl::OkStatus();
  }

  bool Next(absl::string_view text) const {
    return absl::StartsWith(pattern_.substr(at_), text);
  }
  bool NextGroup() const {
    if (Next("(?<")) return Next("(?<=") || Next("(?<!");
    return Next("(?:") || Next("(?=") || Next("(?!") || Next("(?>") ||
           Next("(?i:");
  }
  void Take(size_t bytes) {
    absl::StrAppend(&out_, pattern_.substr(at_, bytes));
    at_ += bytes;
  }

  absl::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
  // In out_: where what a repetition repeats begins, and the open groups.
  size_t atom_ = 0;
  std::vector<size_t> groups_;
};

// `stated` is the pattern as the file has it.
absl::StatusOr<void*> CompilePcre2(absl::string_view stated,
                                   absl::string_view pattern,
                                   uint32_t options) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a pattern of ", pattern.size(), " bytes, at most ", kMaxPatternBytes));
  }
  int error = 0;
  size_t where = 0;
  // Ruby's ^ and $ are those of lines.
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                   pattern.size(), options | PCRE2_UTF, &error,
                                   &where, nullptr);
  // Oniguruma has it.
  if (error == PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH) {
    return Unsupported(stated, "a look behind of no fixed length");
  }
  // Which Oniguruma may have, or a script that is newer than the library.
  if (error == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY) {
    return Unsupported(stated, "a property of an unknown name");
  }
  if (code == nullptr) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern \"", stated.substr(0, 200), "\" is wrong",
                     stated == pattern ? absl::StrCat(" at byte ", where) : "",
                     ": ", reinterpret_cast<const char*>(message)));
  }
  return code;
}

absl::Status TooMuch(size_t bytes) {
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat(
          "a pattern of this model's tokenizer takes more than ",
          Regex::kMaxSteps, " steps, or ", Regex::kMaxHeapKib,
          " KiB, to look for a match in ", bytes,
          " bytes of text; send the text as token ids, or piece by piece"),
      {{"bounds", absl::StrCat("at most ", Regex::kMaxSteps, " steps")}});
}

// Of each thread.
thread_local SearchBudget* current_budget = nullptr;

}  // namespace

SearchBudget::SearchBudget(uint64_t steps) : steps_(steps), left_(steps) {
  current_budget = this;
}

SearchBudget::~SearchBudget() { current_budget = nullptr; }

// What one search needs. Freed with the object.
class RegexSearch {
 public:
  // `budget`: what it takes from, or null.
  RegexSearch(const pcre2_code* code, SearchBudget* budget)
      : code_(code),
        budget_(budget),
        match_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    pcre2_set_heap_limit(context_, Regex::kMaxHeapKib);
  }
  ~RegexSearch() {
    pcre2_match_data_free(match_);
    pcre2_match_context_free(context_);
  }
  RegexSearch(const RegexSearch&) = delete;
  RegexSearch& operator=(const RegexSearch&) = delete;

  // The bounds of the first match at or after `from`; false if there is none.
  // INVALID_ARGUMENT if looking for it takes too much.
  absl::StatusOr<bool> Find(absl::string_view text, size_t from, size_t& begin,
                            size_t& end) {
    const int found = budget_ == nullptr ? Match(text, from, Regex::kMaxSteps)
                                         : MatchWithinBudget(text, from);
    if (found == PCRE2_ERROR_NOMATCH) return false;
    if (found < 0) return budget_ == nullptr ? TooMuch(text.size()) : Spent();
    // Zero says that a group did not fit, which nobody asked for.
    begin = pcre2_get_ovector_pointer(match_)[0];
    end = pcre2_get_ovector_pointer(match_)[1];
    return begin <= end;
  }

 private:
  int Match(absl::string_view text, size_t from, uint32_t steps) {
    pcre2_set_match_limit(context_, steps);
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), from, PCRE2_NO_UTF_CHECK, match_, context_);
  }

  // PCRE2 does not tell what a search has taken. So it may take little at first
  // and then more, and what it was let take counts.
  int MatchWithinBudget(absl::string_view text, size_t from) {
    constexpr uint64_t kFirstSteps = 64;
    constexpr uint64_t kFactor = 8;
    for (uint64_t steps = kFirstSteps;; steps *= kFactor) {
      steps = std::min<uint64_t>({steps, budget_->left_, Regex::kMaxSteps});
      budget_->left_ -= steps;
      const int found = Match(text, from, static_cast<uint32_t>(steps));
      if (found != PCRE2_ERROR_MATCHLIMIT || budget_->left_ == 0 ||
          steps == Regex::kMaxSteps) {
        return found;
      }
    }
  }

  absl::Status Spent() const {
    if (budget_->left_ == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("its patterns take more than ", budget_->steps_,
                       " steps to read all of its tokens"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a pattern takes more than ", Regex::kMaxSteps, " steps, or ",
        Regex::kMaxHeapKib, " KiB, to read one of its tokens"));
  }

  const pcre2_code* code_;
  SearchBudget* budget_;
  pcre2_match_data* match_;
  pcre2_match_context* context_;
};

namespace {

size_t AfterCharacter(absl::string_view text, size_t at) {
  ++at;
  while (at < text.size() &&
         (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
    ++at;
  }
  return at;
}

}  // namespace

void Regex::Free::operator()(void* code) const {
  pcre2_code_free(static_cast<pcre2_code*>(code));
}

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string translated,
                               Translator(pattern).Translate());
  STEADYSTATE_ASSIGN_OR_RETURN(
      void* code,
      CompilePcre2(pattern, translated, PCRE2_UCP | PCRE2_MULTILINE));
  return Regex(code, false);
}

absl::StatusOr<Regex> Regex::OfLiteral(absl::string_view text) {
  STEADYSTATE_ASSIGN_OR_RETURN(void* code,
                               CompilePcre2(text, text, PCRE2_LITERAL));
  return Regex(code, true);
}

size_t Regex::least_match() const {
  const auto* const code = static_cast<const pcre2_code*>(code_.get());
  uint32_t may_be_empty = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  if (may_be_empty != 0) return 0;
  uint32_t characters = 0;
  pcre2_pattern_info(code, PCRE2_INFO_MINLENGTH, &characters);
  return std::max<size_t>(characters, 1);
}

// As the library does, a match of nothing right behind the one before it is
// none.
absl::StatusOr<std::vector<Stretch>> Regex::Cut(absl::string_view text) const {
  std::vector<Stretch> stretches;
  if (text.empty()) return stretches;
  const std::optional<std::string> stand_ins =
      literal_ ? std::nullopt : WithStandIns(text);
  const absl::string_view subject = stand_ins.has_value() ? *stand_ins : text;
  RegexSearch search(static_cast<const pcre2_code*>(code_.get()),
                     literal_ ? nullptr : current_budget);
  const bool may_be_empty = least_match() == 0;
  size_t cut = 0;   // up to here `text` is in stretches
  size_t from = 0;  // the next match begins here or later
  size_t begin = 0;
  size_t end = 0;
  bool matched = false;  // what ends at `cut` is a match
  while (from < text.size() || (from == text.size() && may_be_empty)) {
    STEADYSTATE_ASSIGN_OR_RETURN(const bool found,
                                 search.Find(subject, from, begin, end));
    if (!found) break;
    if (begin == end && matched && end == cut) {
      from = AfterCharacter(text, from);
      continue;
    }
    if (cut < begin) {
      stretches.push_back({text.substr(cut, begin - cut), false});
    }
    stretches.push_back({text.substr(begin, end - begin), true});
    cut = end;
    from = end;
    matched = true;
  }
  if (cut < text.size()) stretches.push_back({text.substr(cut), false});
  return stretches;
}

}  // namespace steadystate
