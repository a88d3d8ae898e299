#include "client/jinja/value.h"

#include "absl/strings/str_cat.h"

namespace steadystate::jinja {

const Value* Map::Find(absl::string_view name) const {
  for (const auto& [key, value] : members) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Map::Set(absl::string_view name, Value value) {
  for (auto& [key, old] : members) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  members.emplace_back(std::string(name), std::move(value));
}

std::optional<int64_t> Value::AsNumber() const {
  if (const int64_t* number = As<int64_t>()) return *number;
  if (const bool* truth = As<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

Value MakeText(absl::string_view text) { return Text(std::string(text)); }

Value MakeList(List list) { return std::make_shared<List>(std::move(list)); }

Value MakeMap(Map map) { return std::make_shared<Map>(std::move(map)); }

bool IsTrue(const Value& value) {
  if (const auto number = value.AsNumber()) return *number != 0;
  if (const Text* text = value.As<Text>()) return !text->bytes.empty();
  if (const ListPtr* list = value.As<ListPtr>()) return !(*list)->empty();
  if (const MapPtr* map = value.As<MapPtr>()) {
    return (*map)->kind != Map::Kind::kDict || !(*map)->members.empty();
  }
  return value.Is<const Node*>();
}

std::optional<bool> AreEqual(const Value& left, const Value& right) {
  const auto number = left.AsNumber();
  if (number && right.AsNumber()) return *number == *right.AsNumber();
  if (left.is.index() != right.is.index()) return false;
  if (const Text* text = left.As<Text>()) {
    return text->bytes == right.As<Text>()->bytes;
  }
  // Lists are tuples, too, which are equal to no list.
  if (left.Is<ListPtr>() || left.Is<MapPtr>() || left.Is<const Node*>()) {
    return std::nullopt;
  }
  return true;
}

std::optional<Text> TextOf(const Value& value) {
  if (const Text* text = value.As<Text>()) return *text;
  if (value.Is<Undefined>()) return Text();
  if (value.Is<None>()) return Text("None");
  if (const bool* truth = value.As<bool>())
    return Text(*truth ? "True" : "False");
  if (const int64_t* number = value.As<int64_t>()) {
    return Text(absl::StrCat(*number));
  }
  return std::nullopt;
}

std::string KindOf(const Value& value) {
  constexpr const char* kKinds[] = {
      "an undefined value", "none",   "a truth value", "a number",
      "a string",           "a list", "a dictionary",  "a function"};
  return kKinds[value.is.index()];
}

}  // namespace steadystate::jinja
