#include "server/base/json.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace steadystate {
namespace {

using nlohmann::json;

bool IsIdentifierByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

// Replaces the bare words NaN, Infinity and -Infinity outside of strings, which
// Python writes, by numbers that read back the same or as null: 1e999 overflows
// to infinity in no JSON parser alike, so infinities become the string that
// other writers use.
std::string QuoteNonFinite(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out.push_back(c);
      if (c == '\\' && i + 1 < text.size()) {
        out.push_back(text[++i]);
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    in_string = c == '"';
    bool replaced = false;
    for (absl::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      const bool ends = i + word.size() >= text.size() ||
                        !IsIdentifierByte(text[i + word.size()]);
      if (absl::StartsWith(text.substr(i), word) && ends) {
        absl::StrAppend(&out, "\"", word, "\"");
        i += word.size() - 1;
        replaced = true;
        break;
      }
    }
    if (!replaced) out.push_back(c);
  }
  return out;
}

// Builds the value as nlohmann's own reader would, and refuses what that one
// would let through: duplicate keys and unbounded depth or size.
class StrictReader final : public nlohmann::json_sax<json> {
 public:
  StrictReader(absl::string_view what, const JsonLimits& limits)
      : what_(what), limits_(limits), builder_(value_, false) {}

  absl::StatusOr<json> Take() && {
    if (!error_.ok()) return error_;
    return std::move(value_);
  }

  bool null() override { return Count() && builder_.null(); }
  bool boolean(bool v) override { return Count() && builder_.boolean(v); }
  bool number_integer(number_integer_t v) override {
    return Count() && builder_.number_integer(v);
  }
  bool number_unsigned(number_unsigned_t v) override {
    return Count() && builder_.number_unsigned(v);
  }
  bool number_float(number_float_t v, const string_t& text) override {
    return Count() && builder_.number_float(v, text);
  }
  bool string(string_t& v) override { return Count() && builder_.string(v); }
  bool binary(binary_t& v) override { return Count() && builder_.binary(v); }

  bool start_object(size_t size) override {
    keys_.emplace_back();
    return Count() && Enter() && builder_.start_object(size);
  }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      return Refuse(absl::StrCat("key '", name.substr(0, 200),
                                 "' occurs twice in one object"));
    }
    return builder_.key(name);
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return builder_.end_object();
  }
  bool start_array(size_t size) override {
    return Count() && Enter() && builder_.start_array(size);
  }
  bool end_array() override {
    --depth_;
    return builder_.end_array();
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return Refuse(absl::StrCat("not JSON at byte ", position, ": ",
                               absl::string_view(error.what()).substr(0, 200)));
  }

 private:
  bool Count() {
    if (++values_ <= limits_.max_values) return true;
    return Refuse(absl::StrCat("more than ", limits_.max_values, " values"));
  }
  bool Enter() {
    if (++depth_ <= limits_.max_depth) return true;
    return Refuse(
        absl::StrCat("nested deeper than ", limits_.max_depth, " levels"));
  }
  bool Refuse(absl::string_view why) {
    if (error_.ok()) {
      error_ = absl::InvalidArgumentError(absl::StrCat(what_, ": ", why));
    }
    return false;
  }

  const std::string what_;
  const JsonLimits limits_;
  json value_;
  nlohmann::detail::json_sax_dom_parser<json> builder_;
  std::vector<std::set<std::string>> keys_;
  size_t depth_ = 0;
  size_t values_ = 0;
  absl::Status error_;
};

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view what,
                               const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": ", text.size(), " bytes; at most ", limits.max_bytes));
  }
  StrictReader reader(what, limits);
  json::sax_parse(QuoteNonFinite(text), &reader);
  return std::move(reader).Take();
}

}  // namespace steadystate
