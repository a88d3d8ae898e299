// Operators, members and slices.
#include <algorithm>
#include <array>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/jinja/builtins.h"

namespace steadystate::jinja {
namespace {

constexpr int64_t kMaxNumber = 1'000'000'000;

absl::Status NotUnderstood(absl::string_view name, const Value& left,
                           const Value& right) {
  return absl::UnimplementedError(absl::StrCat("'", name, "' of ", KindOf(left),
                                               " and ", KindOf(right),
                                               " is not understood"));
}

// As Python divides, towards less.
int64_t Floor(int64_t left, int64_t right) {
  return left / right - (left % right != 0 && (left < 0) != (right < 0));
}

absl::StatusOr<Value> Calculate(absl::string_view name, const Value& left,
                                const Value& right) {
  const int64_t* a = left.As<int64_t>();
  const int64_t* b = right.As<int64_t>();
  const bool divides = name == "//" || name == "%";
  if (a == nullptr || b == nullptr || (divides && *b == 0) || name == "/" ||
      name == "**") {
    return NotUnderstood(name, left, right);
  }
  int64_t result = 0;
  if (name == "+") result = *a + *b;
  if (name == "-") result = *a - *b;
  if (name == "*") result = *a * *b;
  if (name == "//") result = Floor(*a, *b);
  if (name == "%") result = *a - Floor(*a, *b) * *b;
  if (result > kMaxNumber || result < -kMaxNumber) {
    return absl::UnimplementedError("a number is too large");
  }
  return Value(result);
}

absl::StatusOr<Value> Add(const Value& left, const Value& right) {
  if (left.Is<Text>() && right.Is<Text>()) {
    Text sum = *left.As<Text>();
    sum.Append(*right.As<Text>());
    return Value(std::move(sum));
  }
  if (left.Is<ListPtr>() && right.Is<ListPtr>()) {
    List sum = **left.As<ListPtr>();
    const List& added = **right.As<ListPtr>();
    sum.insert(sum.end(), added.begin(), added.end());
    return MakeList(std::move(sum));
  }
  return Calculate("+", left, right);
}

absl::StatusOr<Value> Join(const Value& left, const Value& right) {
  std::optional<Text> text = TextOf(left);
  const std::optional<Text> added = TextOf(right);
  if (!text || !added) return NotUnderstood("~", left, right);
  text->Append(*added);
  return Value(*std::move(text));
}

absl::StatusOr<bool> IsIn(const Value& part, const Value& whole) {
  if (const Text* text = whole.As<Text>()) {
    const Text* searched = part.As<Text>();
    if (searched == nullptr) return NotUnderstood("in", part, whole);
    return absl::StrContains(text->bytes, searched->bytes);
  }
  if (const ListPtr* list = whole.As<ListPtr>()) {
    for (const Value& item : **list) {
      const std::optional<bool> equal = AreEqual(part, item);
      if (!equal) return NotUnderstood("in", part, whole);
      if (*equal) return true;
    }
    return false;
  }
  const MapPtr* map = whole.As<MapPtr>();
  if (map != nullptr && (*map)->kind == Map::Kind::kDict && part.Is<Text>()) {
    return (*map)->Find(part.As<Text>()->bytes) != nullptr;
  }
  if (whole.Is<Undefined>()) return false;
  return NotUnderstood("in", part, whole);
}

absl::StatusOr<bool> IsLess(absl::string_view name, const Value& left,
                            const Value& right) {
  const auto a = left.AsNumber();
  const auto b = right.AsNumber();
  if (a && b) return *a < *b;
  if (left.Is<Text>() && right.Is<Text>()) {
    return left.As<Text>()->bytes < right.As<Text>()->bytes;
  }
  return NotUnderstood(name, left, right);
}

absl::StatusOr<bool> Compare(absl::string_view name, const Value& left,
                             const Value& right) {
  if (name == "==" || name == "!=") {
    const std::optional<bool> equal = AreEqual(left, right);
    if (!equal) return NotUnderstood(name, left, right);
    return *equal == (name == "==");
  }
  const bool swapped = name == ">" || name == "<=";
  const auto less =
      swapped ? IsLess(name, right, left) : IsLess(name, left, right);
  if (!less.ok()) return less.status();
  return *less == (name == "<" || name == ">");
}

// What Python's objects have; a template that reads one of these by a dot gets
// a method, and not a member.
bool IsMethodOfDict(absl::string_view name) {
  constexpr std::array<absl::string_view, 11> kMethods = {
      "clear", "copy",    "fromkeys",   "get",    "items", "keys",
      "pop",   "popitem", "setdefault", "update", "values"};
  return std::find(kMethods.begin(), kMethods.end(), name) != kMethods.end();
}

}  // namespace

absl::StatusOr<Value> Operator(absl::string_view name, const Value& left,
                               const Value& right) {
  if (name == "+") return Add(left, right);
  if (name == "~") return Join(left, right);
  if (name == "in" || name == "not in") {
    const auto in = IsIn(left, right);
    if (!in.ok()) return in.status();
    return Value(*in == (name == "in"));
  }
  if (absl::StrContains("== != <= >=", name)) {
    const auto compared = Compare(name, left, right);
    if (!compared.ok()) return compared.status();
    return Value(*compared);
  }
  return Calculate(name, left, right);
}

absl::StatusOr<Value> Member(const Value& value, absl::string_view name) {
  if (const MapPtr* map = value.As<MapPtr>()) {
    const Value* found = (*map)->Find(name);
    const bool dict = (*map)->kind == Map::Kind::kDict;
    if (found != nullptr && !(dict && IsMethodOfDict(name))) return *found;
    if (dict && !IsMethodOfDict(name) && !absl::StartsWith(name, "_")) {
      return Value();
    }
    if ((*map)->kind == Map::Kind::kNamespace) return Value();
  }
  return absl::UnimplementedError(
      absl::StrCat("'", name, "' of ", KindOf(value), " is not understood"));
}

absl::StatusOr<Value> Item(const Value& value, const Value& index) {
  const Text* name = index.As<Text>();
  const MapPtr* map = value.As<MapPtr>();
  if (map != nullptr && name != nullptr && (*map)->kind == Map::Kind::kDict) {
    const Value* found = (*map)->Find(name->bytes);
    if (found != nullptr) return *found;
    return Member(value, name->bytes);
  }
  const int64_t* place = index.As<int64_t>();
  if (place != nullptr && (value.Is<ListPtr>() || value.Is<Text>())) {
    const auto items = ViewOf(value);
    if (!items.ok()) return items.status();
    const auto size = static_cast<int64_t>((*items)->size());
    const int64_t at = *place < 0 ? *place + size : *place;
    if (at < 0 || at >= size) return Value();
    return (**items)[static_cast<size_t>(at)];
  }
  return absl::UnimplementedError(absl::StrCat("an item of ", KindOf(value),
                                               " by ", KindOf(index),
                                               " is not understood"));
}

absl::StatusOr<Value> Slice(const Value& value, const Value& from,
                            const Value& to, const Value& step) {
  if (!value.Is<ListPtr>() && !value.Is<Text>()) {
    return absl::UnimplementedError(
        absl::StrCat("a slice of ", KindOf(value), " is not understood"));
  }
  const auto items = ViewOf(value);
  if (!items.ok()) return items.status();
  for (const Value* bound : {&from, &to, &step}) {
    const bool known = bound->Is<None>() || bound->Is<int64_t>();
    const int64_t* number = bound->As<int64_t>();
    if (known && !(bound == &step && number != nullptr && *number == 0)) {
      continue;
    }
    return absl::UnimplementedError("a slice of this is not understood");
  }
  const auto size = static_cast<int64_t>((*items)->size());
  const int64_t stride = step.AsNumber().value_or(1);
  const int64_t least = stride > 0 ? 0 : -1;
  const int64_t most = stride > 0 ? size : size - 1;
  const auto bound = [&](const Value& at, int64_t missing) {
    if (!at.AsNumber()) return missing;
    const int64_t place = *at.AsNumber() + (*at.AsNumber() < 0 ? size : 0);
    return std::clamp(place, least, std::max(least, most));
  };
  const int64_t end = bound(to, stride > 0 ? most : least);
  List taken;
  for (int64_t at = bound(from, stride > 0 ? least : most);
       stride > 0 ? at < end : at > end; at += stride) {
    taken.push_back((**items)[static_cast<size_t>(at)]);
  }
  if (value.Is<ListPtr>()) return MakeList(std::move(taken));
  Text text;
  for (const Value& character : taken) text.Append(*character.As<Text>());
  return Value(std::move(text));
}

absl::StatusOr<ListView> ViewOf(const Value& value) {
  if (const ListPtr* list = value.As<ListPtr>()) return *list;
  auto items = std::make_shared<List>();
  if (value.Is<Undefined>()) return items;
  if (const Text* text = value.As<Text>()) {
    for (Text& character : Characters(*text)) {
      items->emplace_back(std::move(character));
    }
    return items;
  }
  const MapPtr* map = value.As<MapPtr>();
  if (map != nullptr && (*map)->kind == Map::Kind::kDict) {
    for (const auto& [key, unused] : (*map)->members) {
      items->push_back(MakeText(key));
    }
    return items;
  }
  return absl::UnimplementedError(
      absl::StrCat("the items of ", KindOf(value), " are not understood"));
}

}  // namespace steadystate::jinja
