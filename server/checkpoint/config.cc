#include "server/checkpoint/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "server/base/json.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

using nlohmann::json;

std::string Text(const json* value) {
  return value == nullptr ? "null" : value->dump().substr(0, 200);
}

bool Within(double value, Bounds bounds) {
  return value >= bounds.min && value <= bounds.max;
}

// A whole number that a JSON value holds exactly; 64.0 is one.
std::optional<double> WholeNumber(const json& value) {
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  if (number != std::floor(number)) return std::nullopt;
  return number;
}

// A number of a list; infinity in either of the ways that libraries write it.
std::optional<double> ExtendedNumber(const json& value) {
  if (value.is_number()) return value.get<double>();
  const bool wrapped = value.is_object() && value.size() == 1;
  const json name = wrapped ? value.value("__float__", json()) : value;
  if (name == "Infinity") return std::numeric_limits<double>::infinity();
  if (name == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::string BoundsText(absl::string_view kind, Bounds bounds) {
  // %.15g: whole numbers in full.
  return absl::StrFormat("it must be %s in [%.15g, %.15g]", kind, bounds.min,
                         bounds.max);
}

}  // namespace

absl::StatusOr<Config> Config::Parse(absl::string_view text,
                                     absl::string_view what) {
  STEADYSTATE_ASSIGN_OR_RETURN(json value, ParseJson(text, what));
  if (!value.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": the text is not a JSON object"));
  }
  auto root = std::make_shared<const json>(std::move(value));
  const json* object = root.get();
  return Config(std::move(root), object, std::string(what), "");
}

Config::Config(std::shared_ptr<const json> root, const json* object,
               std::string what, std::string path)
    : root_(std::move(root)),
      object_(object),
      what_(std::move(what)),
      path_(std::move(path)) {}

const json* Config::Find(absl::string_view key) const {
  const auto found = object_->find(std::string(key));
  if (found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

absl::Status Config::Invalid(absl::string_view key,
                             absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(
      what_, ": ", path_, key, " is ", Text(Find(key)), "; ", what));
}

absl::Status Config::Unsupported(absl::string_view key,
                                 absl::string_view why) const {
  return absl::UnimplementedError(absl::StrCat(what_, ": ", path_, key, " is ",
                                               Text(Find(key)), ": ", why));
}

Config Config::With(absl::string_view key, absl::string_view text) const {
  json changed = *root_;
  changed[std::string(key)] = std::string(text);
  auto root = std::make_shared<const json>(std::move(changed));
  const json* object = root.get();
  return Config(std::move(root), object, what_, path_);
}

bool Config::Has(absl::string_view key) const { return Find(key) != nullptr; }

bool Config::IsNull(absl::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found != object_->end() && found->is_null();
}

absl::StatusOr<std::optional<size_t>> Config::OptionalSize(
    absl::string_view key, Bounds bounds) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<size_t>();
  const std::optional<double> number = WholeNumber(*value);
  if (!number.has_value() || !Within(*number, bounds)) {
    return Invalid(key, BoundsText("a whole number", bounds));
  }
  return std::optional(static_cast<size_t>(*number));
}

absl::StatusOr<size_t> Config::Size(absl::string_view key, size_t fallback,
                                    Bounds bounds) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<size_t> size,
                               OptionalSize(key, bounds));
  return size.value_or(fallback);
}

absl::StatusOr<std::optional<double>> Config::OptionalNumber(
    absl::string_view key, Bounds bounds) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !Within(value->get<double>(), bounds)) {
    return Invalid(key, BoundsText("a number", bounds));
  }
  return std::optional(value->get<double>());
}

absl::StatusOr<double> Config::Number(absl::string_view key, double fallback,
                                      Bounds bounds) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::optional<double> number,
                               OptionalNumber(key, bounds));
  return number.value_or(fallback);
}

absl::StatusOr<bool> Config::Bool(absl::string_view key, bool fallback) const {
  const json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) return Invalid(key, "it must be true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> Config::String(absl::string_view key,
                                           absl::string_view fallback) const {
  const json* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return Invalid(key, "it must be a string");
  return value->get<std::string>();
}

absl::StatusOr<std::optional<std::vector<size_t>>> Config::SizeList(
    absl::string_view key, Bounds bounds, size_t max_count) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto numbers,
                               WholeNumberList(key, bounds, max_count));
  if (!numbers.has_value()) return std::optional<std::vector<size_t>>();
  return std::optional(std::vector<size_t>(numbers->begin(), numbers->end()));
}

absl::StatusOr<std::optional<std::vector<int64_t>>> Config::WholeNumberList(
    absl::string_view key, Bounds bounds, size_t max_count) const {
  std::vector<int64_t> sizes;
  const json* value = Find(key);
  if (value == nullptr) {
    const bool absent = !object_->contains(std::string(key));
    return absent ? std::nullopt : std::optional(std::move(sizes));
  }
  const json list = value->is_array() ? *value : json::array({*value});
  if (list.size() > max_count) {
    return Invalid(key, absl::StrCat("it may list at most ", max_count));
  }
  for (const json& element : list) {
    const std::optional<double> number = WholeNumber(element);
    if (!number.has_value() || !Within(*number, bounds)) {
      return Invalid(key, absl::StrCat("each element: ",
                                       BoundsText("a whole number", bounds)));
    }
    sizes.push_back(static_cast<int64_t>(*number));
  }
  return std::optional(std::move(sizes));
}

absl::StatusOr<std::optional<std::vector<double>>> Config::NumberList(
    absl::string_view key, Bounds bounds, size_t max_count) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<double>>();
  if (!value->is_array() || value->size() > max_count) {
    return Invalid(key, absl::StrCat("it must be a list of at most ", max_count,
                                     " numbers"));
  }
  std::vector<double> numbers;
  for (const json& element : *value) {
    const std::optional<double> number = ExtendedNumber(element);
    if (!number.has_value() || !Within(*number, bounds)) {
      return Invalid(
          key, absl::StrCat("each element: ", BoundsText("a number", bounds)));
    }
    numbers.push_back(*number);
  }
  return std::optional(std::move(numbers));
}

absl::StatusOr<std::optional<std::vector<std::string>>> Config::StringList(
    absl::string_view key, size_t max_count) const {
  const json* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<std::string>>();
  if (!value->is_array() || value->size() > max_count ||
      !std::ranges::all_of(*value, &json::is_string)) {
    return Invalid(key, absl::StrCat("it must be a list of at most ", max_count,
                                     " strings"));
  }
  return std::optional(value->get<std::vector<std::string>>());
}

absl::StatusOr<Activation> Config::ActivationOf(
    absl::string_view key, absl::string_view fallback) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string name, String(key, fallback));
  const std::optional<Activation> activation = ActivationFromName(name);
  if (!activation.has_value()) {
    return Unsupported(key, "no activation of that name is supported");
  }
  return *activation;
}

absl::StatusOr<std::vector<Config>> Config::Objects(absl::string_view key,
                                                    size_t max_count) const {
  std::vector<Config> objects;
  const json* value = Find(key);
  if (value == nullptr) return objects;
  const auto add = [&](const json& element, absl::string_view index) {
    if (!element.is_object()) return false;
    objects.push_back(
        Config(root_, &element, what_, absl::StrCat(path_, key, index, ".")));
    return true;
  };
  if (!value->is_array()) {
    if (!add(*value, "")) return Invalid(key, "it must be an object");
    return objects;
  }
  if (value->size() > max_count) {
    return Invalid(key, absl::StrCat("it may list at most ", max_count));
  }
  for (size_t i = 0; i < value->size(); ++i) {
    if (!add((*value)[i], absl::StrCat("[", i, "]"))) {
      return Invalid(key, "it must be an object or a list of objects");
    }
  }
  return objects;
}

absl::StatusOr<Config> Config::Inner(
    absl::string_view key, std::span<const absl::string_view> inherited,
    std::span<const absl::string_view> ruling) const {
  json inner = root_->at(std::string(key));
  if (!inner.is_object()) return Invalid(key, "it must be an object");
  const auto take = [&](absl::string_view name, bool rules) {
    const json* outer = Find(name);
    if (outer == nullptr) return;
    json& own = inner[std::string(name)];
    if (rules || own.is_null()) own = *outer;
  };
  for (const absl::string_view name : inherited) take(name, false);
  for (const absl::string_view name : ruling) take(name, true);
  auto root = std::make_shared<const json>(std::move(inner));
  const json* object = root.get();
  return Config(std::move(root), object, what_, absl::StrCat(path_, key, "."));
}

absl::Status Config::CheckFixedKeys(const KeyTable& table) const {
  for (const FixedKey& fixed : table.must_be_default) {
    const json* value = Find(fixed.key);
    const json supported = json::parse(
        std::string_view(fixed.default_json.data(), fixed.default_json.size()));
    if (value != nullptr && *value != supported) {
      return Unsupported(fixed.key, absl::StrCat("only ", fixed.default_json,
                                                 " is supported"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> Config::UnknownKeys(
    std::span<const KeyTable> tables) const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : object_->items()) {
    const absl::string_view name = key;
    const bool known = std::ranges::any_of(tables, [name](const KeyTable& t) {
      return std::ranges::count(t.used, name) > 0 ||
             std::ranges::count(t.inert, name) > 0 ||
             std::ranges::count(t.must_be_default, name, &FixedKey::key) > 0;
    });
    if (!known) unknown.push_back(absl::StrCat(path_, key));
  }
  return unknown;
}

absl::Status Config::CheckKeys(std::span<const KeyTable> tables,
                               std::vector<std::string>& warnings) const {
  for (const KeyTable& table : tables) {
    STEADYSTATE_RETURN_IF_ERROR(CheckFixedKeys(table));
  }
  for (const std::string& key : UnknownKeys(tables)) {
    warnings.push_back(absl::StrCat("unknown config key '", key, "'"));
  }
  return absl::OkStatus();
}

namespace {

constexpr absl::string_view kKey = "transformers_version";
constexpr LibraryVersion kFirstOfFla06 = {.major = 5, .minor = 6, .patch = 2};
constexpr size_t kMaxVersionBytes = 64;

// What is written in a config.json, or "".
std::string Stated(const Config& config) {
  const absl::StatusOr<std::string> text = config.String(kKey, "");
  return text.ok() ? *text : "";
}

// Takes the digits that `text` begins with.
absl::string_view TakeDigits(absl::string_view& text) {
  size_t digits = 0;
  while (digits < text.size() &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) {
    ++digits;
  }
  const absl::string_view taken = text.substr(0, digits);
  text.remove_prefix(digits);
  return taken;
}

}  // namespace

std::optional<LibraryVersion> ParseLibraryVersion(absl::string_view text) {
  if (text.size() > kMaxVersionBytes) return std::nullopt;
  LibraryVersion version;
  uint32_t* const numbers[] = {&version.major, &version.minor, &version.patch};
  size_t read = 0;
  for (uint32_t* const number : numbers) {
    if (!absl::SimpleAtoi(TakeDigits(text), number)) break;
    ++read;
    if (text.empty() || text.front() != '.' || text.size() == 1) break;
    if (!absl::ascii_isdigit(static_cast<unsigned char>(text[1]))) break;
    text.remove_prefix(1);
  }
  if (read < 2) return std::nullopt;
  // What may follow: ".dev0", "rc1", "a2", "b1" before a release; ".post1",
  // "+cpu", ".1" are of one.
  for (const absl::string_view before : {".dev", "rc", "a", "b"}) {
    if (text.substr(0, before.size()) == before) version.released = false;
  }
  return version;
}

std::optional<LibraryVersion> TransformersVersion(const Config& config) {
  return ParseLibraryVersion(Stated(config));
}

bool IsBeforeFla06(const Config& config) {
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  return !version.has_value() || *version < kFirstOfFla06;
}

std::string ReadingOf(const Config& config, absl::string_view how,
                      absl::string_view other, absl::string_view otherwise) {
  const bool known = TransformersVersion(config).has_value();
  return absl::StrCat(how, ", for transformers_version is ",
                      known ? Stated(config) : "not known",
                      "; with --transformers_version=", other, ": ", otherwise);
}

}  // namespace steadystate
