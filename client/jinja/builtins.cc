#include "client/jinja/builtins.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace steadystate::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;

absl::Status NotUnderstood(absl::string_view kind, absl::string_view name,
                           const Value& value) {
  return absl::UnimplementedError(absl::StrCat(
      "the ", kind, " '", name, "' of ", KindOf(value), " is not understood"));
}

bool ChangesCase(absl::string_view name) {
  return name == "upper" || name == "lower" || name == "capitalize";
}

// Other letters change in ways that only Unicode's tables know.
absl::StatusOr<Value> WithCase(Text text, absl::string_view name) {
  bool upper = name != "lower";
  for (char& byte : text.bytes) {
    if (!absl::ascii_isascii(static_cast<unsigned char>(byte))) {
      return absl::UnimplementedError(
          absl::StrCat("'", name, "' is understood of ASCII alone"));
    }
    const auto letter = static_cast<unsigned char>(byte);
    byte = upper ? absl::ascii_toupper(letter) : absl::ascii_tolower(letter);
    upper = name == "upper";
  }
  return Value(std::move(text));
}

absl::StatusOr<Value> Edge(const Value& value, bool first) {
  const auto items = ViewOf(value);
  if (!items.ok()) return items.status();
  if ((*items)->empty()) return Value();
  return first ? (*items)->front() : (*items)->back();
}

absl::StatusOr<Value> LengthOf(const Value& value) {
  const auto items = ViewOf(value);
  if (!items.ok()) return items.status();
  return Value(static_cast<int64_t>((*items)->size()));
}

absl::StatusOr<Value> JoinItems(const Value& value, const Text& separator) {
  const auto items = ViewOf(value);
  if (!items.ok()) return items.status();
  Text joined;
  for (size_t i = 0; i < (*items)->size(); ++i) {
    const std::optional<Text> text = TextOf((**items)[i]);
    if (!text) return NotUnderstood("filter", "join", (**items)[i]);
    if (i > 0) joined.Append(separator);
    joined.Append(*text);
  }
  return Value(std::move(joined));
}

bool HasOnlyTexts(const Arguments& arguments, size_t least, size_t most) {
  const size_t count = arguments.places.size();
  if (!arguments.names.empty() || count < least || count > most) return false;
  return std::all_of(arguments.places.begin(), arguments.places.end(),
                     [](const Value& value) { return value.Is<Text>(); });
}

const Text& TextAt(const Arguments& arguments, size_t place) {
  return *arguments.places[place].As<Text>();
}

// strip, lstrip and rstrip.
std::optional<Side> SideOf(absl::string_view name) {
  if (name == "strip" || name == "trim") return Side::kBoth;
  if (name == "lstrip") return Side::kLeft;
  if (name == "rstrip") return Side::kRight;
  return std::nullopt;
}

absl::StatusOr<Value> MethodOfText(absl::string_view name, const Text& text,
                                   const Arguments& arguments) {
  const size_t count = arguments.places.size();
  const std::optional<Side> side = SideOf(name);
  if (side && name != "trim" && HasOnlyTexts(arguments, 0, 1) &&
      !(count == 1 && TextAt(arguments, 0).bytes.empty())) {
    return Value(
        Strip(text, *side, count == 1 ? TextAt(arguments, 0).bytes : ""));
  }
  if (name == "startswith" && HasOnlyTexts(arguments, 1, 1)) {
    return Value(absl::StartsWith(text.bytes, TextAt(arguments, 0).bytes));
  }
  if (name == "endswith" && HasOnlyTexts(arguments, 1, 1)) {
    return Value(absl::EndsWith(text.bytes, TextAt(arguments, 0).bytes));
  }
  if (name == "split" && HasOnlyTexts(arguments, 1, 1) &&
      !TextAt(arguments, 0).bytes.empty()) {
    List parts;
    for (Text& part : Split(text, TextAt(arguments, 0).bytes)) {
      parts.emplace_back(std::move(part));
    }
    return MakeList(std::move(parts));
  }
  if (name == "replace" && HasOnlyTexts(arguments, 2, 2) &&
      !TextAt(arguments, 0).bytes.empty()) {
    return Value(
        Replace(text, TextAt(arguments, 0).bytes, TextAt(arguments, 1)));
  }
  if (ChangesCase(name) && HasOnlyTexts(arguments, 0, 0)) {
    return WithCase(text, name);
  }
  return NotUnderstood("method", name, text);
}

// Filters that take any value.
absl::StatusOr<Value> Default(const Value& value, const Arguments& arguments) {
  const Value* otherwise = arguments.At(0, "default_value");
  const Value* also_false = arguments.At(1, "boolean");
  const bool given = also_false != nullptr && IsTrue(*also_false)
                         ? IsTrue(value)
                         : !value.Is<Undefined>();
  if (given) return value;
  return otherwise == nullptr ? MakeText("") : *otherwise;
}

}  // namespace

const Value* Arguments::At(size_t place, absl::string_view name) const {
  if (place < places.size()) return &places[place];
  for (const auto& [key, value] : names) {
    if (key == name) return &value;
  }
  return nullptr;
}

absl::StatusOr<Value> Filter(absl::string_view name, const Value& value,
                             const Arguments& arguments) {
  if (name == "default" || name == "d") return Default(value, arguments);
  const bool alone = arguments.places.empty() && arguments.names.empty();
  const std::optional<Text> text = TextOf(value);
  if (alone && (name == "length" || name == "count")) return LengthOf(value);
  if (alone && name == "first") return Edge(value, /*first=*/true);
  if (alone && name == "last" && !value.Is<MapPtr>()) {
    return Edge(value, /*first=*/false);
  }
  if (alone && name == "list") {
    const auto items = ViewOf(value);
    if (!items.ok()) return items.status();
    return MakeList(**items);
  }
  if (name == "join" && HasOnlyTexts(arguments, 0, 1)) {
    return JoinItems(value,
                     arguments.places.empty() ? Text() : TextAt(arguments, 0));
  }
  if (!text) return NotUnderstood("filter", name, value);
  if (alone && name == "trim") return Value(Strip(*text, Side::kBoth));
  if (alone && name == "string") return Value(*text);
  if ((alone && ChangesCase(name)) || name == "replace") {
    return MethodOfText(name, *text, arguments);
  }
  return NotUnderstood("filter", name, value);
}

absl::StatusOr<bool> Test(absl::string_view name, const Value& value,
                          const Arguments& arguments) {
  const MapPtr* map = value.As<MapPtr>();
  const bool dict = map != nullptr && (*map)->kind == Map::Kind::kDict;
  const bool listed =
      value.Is<Undefined>() || value.Is<Text>() || value.Is<ListPtr>() || dict;
  const bool* truth = value.As<bool>();
  if (!arguments.names.empty()) return NotUnderstood("test", name, value);
  if (arguments.places.size() == 1) {
    const Value& other = arguments.places[0];
    const char* known = name == "equalto" || name == "eq" ? "=="
                        : name == "ne"                    ? "!="
                        : name == "in"                    ? "in"
                                                          : nullptr;
    if (known == nullptr) return NotUnderstood("test", name, value);
    const auto compared = Operator(known, value, other);
    if (!compared.ok()) return compared.status();
    return IsTrue(*compared);
  }
  if (!arguments.places.empty()) return NotUnderstood("test", name, value);
  if (name == "defined") return !value.Is<Undefined>();
  if (name == "undefined") return value.Is<Undefined>();
  if (name == "none") return value.Is<None>();
  if (name == "string") return value.Is<Text>();
  if (name == "mapping") return dict;
  if (name == "boolean") return truth != nullptr;
  if (name == "true") return truth != nullptr && *truth;
  if (name == "false") return truth != nullptr && !*truth;
  if (name == "integer") return value.Is<int64_t>();
  if (name == "number") return value.AsNumber().has_value();
  const bool sure = map == nullptr || dict;
  if (sure && (name == "iterable" || name == "sequence")) return listed;
  return NotUnderstood("test", name, value);
}

absl::StatusOr<Value> Method(absl::string_view name, const Value& value,
                             const Arguments& arguments) {
  if (const Text* text = value.As<Text>()) {
    return MethodOfText(name, *text, arguments);
  }
  const MapPtr* map = value.As<MapPtr>();
  if (map == nullptr || (*map)->kind != Map::Kind::kDict) {
    return NotUnderstood("method", name, value);
  }
  if (name == "get" && !arguments.places.empty() && arguments.names.empty() &&
      arguments.places.size() <= 2 && arguments.places[0].Is<Text>()) {
    const Value* found = (*map)->Find(TextAt(arguments, 0).bytes);
    if (found != nullptr) return *found;
    return arguments.places.size() == 2 ? arguments.places[1] : Value(None());
  }
  if (name == "keys" && arguments.places.empty()) {
    const auto keys = ViewOf(value);
    if (!keys.ok()) return keys.status();
    return MakeList(**keys);
  }
  return NotUnderstood("method", name, value);
}

namespace {

absl::StatusOr<Value> Range(const Arguments& arguments) {
  int64_t bounds[] = {0, 0, 1};
  const size_t count = arguments.places.size();
  for (size_t i = 0; i < count && i < 3; ++i) {
    const int64_t* number = arguments.places[i].As<int64_t>();
    if (number == nullptr) return NotUnderstood("function", "range", Value());
    bounds[count == 1 ? 1 : i] = *number;
  }
  const auto [from, to, step] = bounds;
  if (count < 1 || count > 3 || step == 0 || (to - from) / step > kMaxRange) {
    return absl::UnimplementedError("such a range is not understood");
  }
  List numbers;
  for (int64_t n = from; step > 0 ? n < to : n > to; n += step) {
    numbers.emplace_back(n);
  }
  return MakeList(std::move(numbers));
}

absl::StatusOr<Value> Time(const Arguments& arguments, absl::Time now) {
  if (!HasOnlyTexts(arguments, 1, 1) || !TextAt(arguments, 0).OfTemplate()) {
    return absl::UnimplementedError(
        "strftime_now is understood with one string of the template's own");
  }
  const std::string& format = TextAt(arguments, 0).bytes;
  for (size_t i = format.find('%'); i != std::string::npos;
       i = format.find('%', i + 2)) {
    if (i + 1 == format.size() ||
        !absl::StrContains("aAbBdHIjmMpSyY%", format[i + 1])) {
      return absl::UnimplementedError(
          absl::StrCat("the time format '", format, "' is not understood"));
    }
  }
  return MakeText(absl::FormatTime(format, now, absl::LocalTimeZone()));
}

}  // namespace

absl::StatusOr<Value> Function(absl::string_view name,
                               const Arguments& arguments, absl::Time now) {
  if (name == "raise_exception") {
    const Value* said = arguments.At(0, "message");
    const std::optional<Text> text = TextOf(said ? *said : Value());
    return absl::InvalidArgumentError(text.value_or(Text()).bytes);
  }
  if ((name == "namespace" || name == "dict") && arguments.places.empty()) {
    Map map;
    if (name == "namespace") map.kind = Map::Kind::kNamespace;
    for (const auto& [key, value] : arguments.names) map.Set(key, value);
    return MakeMap(std::move(map));
  }
  if (name == "strftime_now") return Time(arguments, now);
  if (name == "range" && arguments.names.empty()) return Range(arguments);
  return absl::UnimplementedError(
      absl::StrCat("the function '", name, "' is not understood"));
}

}  // namespace steadystate::jinja
