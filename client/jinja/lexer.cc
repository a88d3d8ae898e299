#include "client/jinja/lexer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace steadystate::jinja {
namespace {

using Type = Token::Type;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsOfName(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (error_.empty() && at_ < source_.size()) Data();
    if (!error_.empty()) {
      return absl::UnimplementedError(
          absl::StrCat("line ", line_, ": ", error_));
    }
    Add(Type::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // Up to the next tag, and that.
  void Data();
  void Comment();
  // The inside of a tag that ends with `end`.
  void Inside(absl::string_view end, Type type);
  void Piece();
  void String();
  // Goes past the end of a tag, at which the position is; true: it was there.
  bool TagEnd(absl::string_view end);

  void Add(Type type, absl::string_view text) {
    tokens_.push_back({type, std::string(text), line_});
  }
  absl::string_view rest() const { return source_.substr(at_); }
  void Go(size_t count) {
    const absl::string_view passed = source_.substr(at_, count);
    line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
    at_ += passed.size();
    line_starts_ = absl::EndsWith(passed, "\n");
  }
  void GoPastBlanks() {
    Go(rest().size() - absl::StripLeadingAsciiWhitespace(rest()).size());
  }

  const absl::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;  // at the position
  std::vector<char> open_;   // brackets
  std::vector<Token> tokens_;
  std::string error_;
};

// Data's last line without its blanks, if it has nothing else.
absl::string_view WithoutIndent(absl::string_view data, bool line_starts) {
  const size_t end = data.rfind('\n');
  if (end == absl::string_view::npos && !line_starts) return data;
  const size_t begin = end == absl::string_view::npos ? 0 : end + 1;
  const bool blank = absl::StripAsciiWhitespace(data.substr(begin)).empty();
  return blank ? data.substr(0, begin) : data;
}

void Lexer::Data() {
  size_t tag = source_.find('{', at_);
  while (tag != absl::string_view::npos &&
         (tag + 1 == source_.size() ||
          !absl::StrContains("%{#", source_[tag + 1]))) {
    tag = source_.find('{', tag + 1);
  }
  absl::string_view data = source_.substr(at_, tag - at_);
  if (tag == absl::string_view::npos) {
    data = rest();
    Add(Type::kData, data);
    return Go(data.size());
  }
  const char kind = source_[tag + 1];
  const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
  const size_t whole = data.size();
  if (sign == '-') data = absl::StripTrailingAsciiWhitespace(data);
  if (sign != '-' && sign != '+' && kind != '{') {
    data = WithoutIndent(data, line_starts_);
  }
  if (!data.empty()) Add(Type::kData, data);
  Go(whole + (sign == '-' || sign == '+' ? 3 : 2));
  if (kind == '#') return Comment();
  Add(kind == '%' ? Type::kBlockBegin : Type::kVariableBegin, "");
  kind == '%' ? Inside("%}", Type::kBlockEnd)
              : Inside("}}", Type::kVariableEnd);
}

void Lexer::Comment() {
  const size_t end = rest().find("#}");
  if (end == absl::string_view::npos) {
    error_ = "a comment does not end";
    return;
  }
  const bool sign = end > 0 && absl::StrContains("+-", rest()[end - 1]);
  Go(sign ? end - 1 : end);
  TagEnd("#}");
}

bool Lexer::TagEnd(absl::string_view end) {
  if (absl::StartsWith(rest(), absl::StrCat("-", end))) {
    Go(3);
    GoPastBlanks();
    return true;
  }
  if (end != "}}" && absl::StartsWith(rest(), absl::StrCat("+", end))) {
    Go(3);
    return true;
  }
  if (!absl::StartsWith(rest(), end)) return false;
  Go(end != "}}" && absl::StartsWith(rest().substr(2), "\n") ? 3 : 2);
  return true;
}

void Lexer::Inside(absl::string_view end, Type type) {
  open_.clear();
  while (error_.empty()) {
    GoPastBlanks();
    if (rest().empty()) {
      error_ = "a tag does not end";
      return;
    }
    const int line = line_;
    if (open_.empty() && TagEnd(end)) {
      tokens_.push_back({type, "", line});
      return;
    }
    Piece();
  }
}

void Lexer::Piece() {
  const char first = rest()[0];
  size_t size = 0;
  if (first == '\'' || first == '"') return String();
  if (IsOfName(first)) {
    while (size < rest().size() &&
           (IsOfName(rest()[size]) || IsDigit(rest()[size]))) {
      ++size;
    }
    Add(Type::kName, rest().substr(0, size));
    return Go(size);
  }
  if (IsDigit(first)) {
    while (size < rest().size() && IsDigit(rest()[size])) ++size;
    if (size + 1 < rest().size() && rest()[size] == '.' &&
        IsDigit(rest()[size + 1])) {
      error_ = "a number with a point is not understood";
      return;
    }
    if (size > 1 && first == '0') {
      error_ = "a number that begins with 0 is not understood";
      return;
    }
    Add(Type::kInteger, rest().substr(0, size));
    return Go(size);
  }
  for (const absl::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
    if (!absl::StartsWith(rest(), two)) continue;
    Add(Type::kOperator, two);
    return Go(2);
  }
  if (!absl::StrContains("+-*/%~<>=()[]{}.,:|", first)) {
    error_ = absl::StrCat("'", rest().substr(0, 1), "' is not understood");
    return;
  }
  if (absl::StrContains("([{", first)) open_.push_back(first);
  if (absl::StrContains(")]}", first) && !open_.empty()) open_.pop_back();
  Add(Type::kOperator, rest().substr(0, 1));
  Go(1);
}

void Lexer::String() {
  const char quote = rest()[0];
  std::string text;
  size_t i = 1;
  for (; i < rest().size() && rest()[i] != quote; ++i) {
    if (rest()[i] != '\\' || i + 1 == rest().size()) {
      text += rest()[i];
      continue;
    }
    constexpr absl::string_view kLetters = "abfnrtv\\'\"\n";
    constexpr absl::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
    const char letter = rest()[++i];
    const size_t known = kLetters.find(letter);
    if (absl::StrContains("uUxN01234567", letter)) {
      error_ = absl::StrCat("the escape '\\", rest().substr(i, 1),
                            "' is not understood");
      return;
    }
    if (known == absl::string_view::npos) {
      // As Python reads it.
      absl::StrAppend(&text, "\\", rest().substr(i, 1));
    } else if (known < kMeant.size()) {
      text += kMeant[known];
    }
  }
  if (i == rest().size()) {
    error_ = "a string does not end";
    return;
  }
  Add(Type::kString, text);
  Go(i + 1);
}

}  // namespace

absl::StatusOr<std::vector<Token>> Lex(absl::string_view source) {
  const std::string lines =
      absl::StrReplaceAll(source, {{"\r\n", "\n"}, {"\r", "\n"}});
  return Lexer(absl::StripSuffix(lines, "\n")).Run();
}

}  // namespace steadystate::jinja
