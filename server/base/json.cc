#include "server/base/json.h"

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

// Puts the bare words NaN, Infinity and -Infinity outside of strings, which
// Python writes and JSON does not know, into quotes.
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

bool HasNonFinite(absl::string_view text) {
  return absl::StrContains(text, "NaN") || absl::StrContains(text, "Infinity");
}

// What values take on the heap, beside long strings: what std::map, std::vector
// and std::string allocate, the allocator's rounding included.
constexpr size_t kMemberBytes = 96;
constexpr size_t kElementBytes = 32;
constexpr size_t kContainerBytes = 64;
constexpr size_t kStringBytes = 48;

// Builds the value while the text is read, and ends the reading at the first
// thing that is refused: duplicate keys, too much depth, count or memory.
// nlohmann's own builder with a callback goes on to the end of the text, and
// takes time quadratic in the objects of an array.
class Builder final : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Put(nullptr) != nullptr; }
  bool boolean(bool value) override { return Put(value) != nullptr; }
  bool number_integer(number_integer_t value) override {
    return Put(value) != nullptr;
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Put(value) != nullptr;
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Put(value) != nullptr;
  }
  bool string(string_t& value) override {
    return Charge(kStringBytes + value.size()) &&
           Put(std::move(value)) != nullptr;
  }
  bool binary(binary_t&) override { return Refuse("binary"); }

  bool start_object(size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& key) override {
    if (!Charge(kMemberBytes + key.size())) return false;
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [member, is_new] = members.try_emplace(key);
    if (is_new) {
      member_ = &member->second;
      return true;
    }
    return Refuse(absl::StrCat("key '", key.substr(0, 200),
                               "' occurs twice in one object"));
  }

  bool parse_error(size_t, const std::string&,
                   const json::exception& error) override {
    return Refuse(absl::StrCat("not JSON: ",
                               absl::string_view(error.what()).substr(0, 200)));
  }

  // Why the text was refused; empty if it was not.
  const std::string& refusal() const { return refusal_; }

  json Take() { return std::move(root_); }

 private:
  bool Refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
    return false;
  }

  bool Charge(size_t bytes) {
    memory_ += bytes;
    if (memory_ <= limits_.max_memory) return true;
    return Refuse(absl::StrCat("its values take more than ", limits_.max_memory,
                               " bytes of memory"));
  }

  // Puts a value where it belongs; null if there are too many. The place stays
  // where it is for as long as the value is open, since nothing is added beside
  // it.
  json* Put(json value) {
    if (++values_ > limits_.max_values) {
      Refuse(absl::StrCat("more than ", limits_.max_values, " values"));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_object()) {
      *member_ = std::move(value);
      return member_;
    }
    if (!Charge(kElementBytes)) return nullptr;
    open_.back()->push_back(std::move(value));
    return &open_.back()->back();
  }

  bool Open(json value) {
    if (open_.size() == limits_.max_depth) {
      return Refuse(
          absl::StrCat("nested deeper than ", limits_.max_depth, " levels"));
    }
    if (!Charge(kContainerBytes)) return false;
    json* const place = Put(std::move(value));
    if (place == nullptr) return false;
    open_.push_back(place);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  json root_;
  std::vector<json*> open_;  // containers, the innermost last
  json* member_ = nullptr;   // of the innermost object, its key just read
  size_t values_ = 0;
  size_t memory_ = 0;
  std::string refusal_;
};

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view what,
                               const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": ", text.size(), " bytes; at most ", limits.max_bytes));
  }
  Builder builder(limits);
  std::string quoted;
  if (HasNonFinite(text)) {
    quoted = QuoteNonFinite(text);
    text = quoted;
  }
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", builder.refusal()));
  }
  return builder.Take();
}

}  // namespace steadystate
