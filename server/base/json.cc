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

// Watches the parser and refuses what it would let through: duplicate keys and
// unbounded depth or size. After a refusal everything is discarded.
class Watcher {
 public:
  explicit Watcher(const JsonLimits& limits) : limits_(limits) {}

  bool OnEvent(json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        open_.emplace_back();
        CountValue();
        if (open_.size() > limits_.max_depth) {
          Refuse(absl::StrCat("nested deeper than ", limits_.max_depth,
                              " levels"));
        }
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end:
        open_.pop_back();
        break;
      case json::parse_event_t::key:
        OnKey(parsed.get_ref<const std::string&>());
        break;
      case json::parse_event_t::value:
        CountValue();
        break;
    }
    return refusal_.empty();
  }

  // Why the text was refused; empty if it was not.
  const std::string& refusal() const { return refusal_; }

 private:
  void OnKey(const std::string& key) {
    if (refusal_.empty() && !open_.back().insert(key).second) {
      Refuse(absl::StrCat("key '", key.substr(0, 200),
                          "' occurs twice in one object"));
    }
  }
  void CountValue() {
    if (++values_ > limits_.max_values) {
      Refuse(absl::StrCat("more than ", limits_.max_values, " values"));
    }
  }
  void Refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
  }

  const JsonLimits& limits_;
  std::vector<std::set<std::string>> open_;  // keys of the open objects
  size_t values_ = 0;
  std::string refusal_;
};

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view what,
                               const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": ", text.size(), " bytes; at most ", limits.max_bytes));
  }
  Watcher watcher(limits);
  const auto refuse = [what](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", why));
  };
  try {
    json value =
        json::parse(QuoteNonFinite(text),
                    [&watcher](int, json::parse_event_t event, json& parsed) {
                      return watcher.OnEvent(event, parsed);
                    });
    if (!watcher.refusal().empty()) return refuse(watcher.refusal());
    return value;
  } catch (const json::exception& error) {
    if (!watcher.refusal().empty()) return refuse(watcher.refusal());
    return refuse(absl::StrCat("not JSON: ",
                               absl::string_view(error.what()).substr(0, 200)));
  }
}

}  // namespace steadystate
