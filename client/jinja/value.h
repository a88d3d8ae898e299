#ifndef STEADYSTATE_CLIENT_JINJA_VALUE_H_
#define STEADYSTATE_CLIENT_JINJA_VALUE_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/jinja/node.h"
#include "client/jinja/text.h"

namespace steadystate::jinja {

struct Undefined {};
struct None {};
struct Value;
using List = std::vector<Value>;

struct Map;

using ListPtr = std::shared_ptr<List>;
using MapPtr = std::shared_ptr<Map>;

// What an expression of a template is.
struct Value {
  using Variant = std::variant<Undefined, None, bool, int64_t, Text, ListPtr,
                               MapPtr, const Node*>;  // a macro or function
  Value() = default;
  template <typename T>
  requires std::constructible_from<Variant, T>
  // NOLINTNEXTLINE(google-explicit-constructor): what a value can be is one.
  Value(T of) : is(std::move(of)) {}

  Variant is;

  template <typename T>
  const T* As() const {
    return std::get_if<T>(&is);
  }
  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(is);
  }
  // Of a number, for which true and false stand, too.
  std::optional<int64_t> AsNumber() const;
};

// A dictionary, or what has members alone.
struct Map {
  enum class Kind { kDict, kNamespace, kLoop };
  Kind kind = Kind::kDict;
  std::vector<std::pair<std::string, Value>> members{};

  const Value* Find(absl::string_view name) const;
  void Set(absl::string_view name, Value value);
};

Value MakeText(absl::string_view text);
Value MakeList(List list);
Value MakeMap(Map map);

// As Python has it.
bool IsTrue(const Value& value);

// Nothing: comparing these is not understood.
std::optional<bool> AreEqual(const Value& left, const Value& right);

// What {{ }} writes; nothing: a value whose text is not understood.
std::optional<Text> TextOf(const Value& value);

// What it is, for messages: "a list".
std::string KindOf(const Value& value);

// Variables by their names.
using Variables = std::map<std::string, Value, std::less<>>;

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_VALUE_H_
