#include "server/text/json_fields.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr size_t kMaxSteps = 64;

absl::Status WrongMember(absl::string_view name, const json& value,
                         absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' is ", value.is_null() ? "missing" : value.type_name(),
      ", not ", wanted));
}

}  // namespace

const json& MemberOrNull(const json& object, absl::string_view name) {
  static const json* const null = new json();
  if (!object.is_object()) return *null;
  const auto member = object.find(std::string(name));
  return member == object.end() ? *null : *member;
}

absl::StatusOr<std::string> StringMember(const json& object,
                                         absl::string_view name) {
  const json& value = MemberOrNull(object, name);
  if (!value.is_string()) return WrongMember(name, value, "a string");
  return value.get<std::string>();
}

absl::StatusOr<std::string> StringMember(const json& object,
                                         absl::string_view name,
                                         absl::string_view fallback) {
  if (MemberOrNull(object, name).is_null()) return std::string(fallback);
  return StringMember(object, name);
}

absl::StatusOr<bool> BoolMember(const json& object, absl::string_view name,
                                bool fallback) {
  const json& value = MemberOrNull(object, name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) return WrongMember(name, value, "true or false");
  return value.get<bool>();
}

absl::StatusOr<int32_t> IndexMember(const json& object, absl::string_view name,
                                    size_t limit) {
  const json& value = MemberOrNull(object, name);
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' is ", value.dump().substr(0, 40),
                     ", not an integer in [0, ", limit, ")"));
  }
  return static_cast<int32_t>(value.get<uint64_t>());
}

absl::StatusOr<std::string> TypeOf(const json& object, absl::string_view what) {
  auto type = StringMember(object, "type");
  if (!type.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": ", type.status().message()));
  }
  return type;
}

absl::Status UnsupportedType(absl::string_view what, absl::string_view type) {
  return absl::UnimplementedError(absl::StrCat(
      what, " of type '", type.substr(0, 80), "' is not supported"));
}

absl::StatusOr<const json*> StepsMember(const json& object,
                                        absl::string_view name) {
  const json& steps = MemberOrNull(object, name);
  if (!steps.is_array()) return WrongMember(name, steps, "an array");
  if (steps.size() > kMaxSteps) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' has ", steps.size(), " steps, at most ", kMaxSteps));
  }
  return &steps;
}

}  // namespace steadystate
