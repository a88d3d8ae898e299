#ifndef STEADYSTATE_SERVER_CHECKPOINT_CONFIG_H_
#define STEADYSTATE_SERVER_CHECKPOINT_CONFIG_H_

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/pointwise/activation.h"
#include "nlohmann/json_fwd.hpp"
#include "server/base/status_macros.h"

namespace steadystate {

// A key that would change the result and whose one supported value is its
// default.
struct FixedKey {
  absl::string_view key;
  absl::string_view default_json;  // "null", "true", "4"
};

// How the keys of a config.json object are treated. A key in no list is
// unknown: a warning. null is the same as absent, everywhere.
struct KeyTable {
  std::span<const absl::string_view> used;   // change the result, honoured
  std::span<const absl::string_view> inert;  // do not change the result
  std::span<const FixedKey> must_be_default;
};

// Bounds of a number, both included.
struct Bounds {
  double min = 0;
  double max = 0;
};

// One object of a config.json, read through typed getters. A key that is absent
// or null takes the default given. All errors are INVALID_ARGUMENT and name
// file, key, value and bounds. Immutable; cheap to copy; thread-safe.
class Config {
 public:
  // `what` names the text in messages: the file's path.
  static absl::StatusOr<Config> Parse(absl::string_view text,
                                      absl::string_view what);

  // The same file with this text under a key. REQUIRES: this is no object
  // within another.
  Config With(absl::string_view key, absl::string_view text) const;

  bool Has(absl::string_view key) const;
  // True if the key is there, as null.
  bool IsNull(absl::string_view key) const;

  // A whole number within bounds.
  absl::StatusOr<size_t> Size(absl::string_view key, size_t fallback,
                              Bounds bounds) const;
  absl::StatusOr<std::optional<size_t>> OptionalSize(absl::string_view key,
                                                     Bounds bounds) const;
  absl::StatusOr<double> Number(absl::string_view key, double fallback,
                                Bounds bounds) const;
  absl::StatusOr<std::optional<double>> OptionalNumber(absl::string_view key,
                                                       Bounds bounds) const;
  absl::StatusOr<bool> Bool(absl::string_view key, bool fallback) const;
  absl::StatusOr<std::string> String(absl::string_view key,
                                     absl::string_view fallback) const;

  // Whole numbers within bounds, at most max_count; a lone number is a list of
  // one. Absent: nothing; null: an empty list.
  absl::StatusOr<std::optional<std::vector<size_t>>> SizeList(
      absl::string_view key, Bounds bounds, size_t max_count) const;

  // As SizeList, for bounds below 0.
  absl::StatusOr<std::optional<std::vector<int64_t>>> WholeNumberList(
      absl::string_view key, Bounds bounds, size_t max_count) const;

  // Numbers within bounds, at most max_count. Infinity may be written as Python
  // writes it, Infinity, or as transformers 5 does, {"__float__": "Infinity"}.
  absl::StatusOr<std::optional<std::vector<double>>> NumberList(
      absl::string_view key, Bounds bounds, size_t max_count) const;

  // Strings, at most max_count. Absent or null: nothing.
  absl::StatusOr<std::optional<std::vector<std::string>>> StringList(
      absl::string_view key, size_t max_count) const;

  // The activation that a key names. UNIMPLEMENTED for unknown names.
  absl::StatusOr<Activation> ActivationOf(absl::string_view key,
                                          absl::string_view fallback) const;

  // The objects under a key: none if absent, one, or a list of them.
  absl::StatusOr<std::vector<Config>> Objects(absl::string_view key,
                                              size_t max_count) const;

  // The object under a key as a config by itself. What this config says of
  // `inherited` counts where the object lacks it, of `ruling` even where it
  // does not. REQUIRES: this is no object within another; the key is there.
  // INVALID_ARGUMENT if it is no object.
  absl::StatusOr<Config> Inner(absl::string_view key,
                               std::span<const absl::string_view> inherited,
                               std::span<const absl::string_view> ruling) const;

  // UNIMPLEMENTED, naming key and value, if a key that must be default is not.
  absl::Status CheckFixedKeys(const KeyTable& table) const;

  // Both of a config's checks by its tables: CheckFixedKeys of each, and a
  // warning for each of UnknownKeys.
  absl::Status CheckKeys(std::span<const KeyTable> tables,
                         std::vector<std::string>& warnings) const;

  // Keys that stand in none of the tables, with their path ("attn.foo").
  std::vector<std::string> UnknownKeys(std::span<const KeyTable> tables) const;

  // UNIMPLEMENTED: `key`, whose value follows, is not supported because `why`.
  absl::Status Unsupported(absl::string_view key, absl::string_view why) const;
  // INVALID_ARGUMENT: "<file>: <key> is <value>; <what>".
  absl::Status Invalid(absl::string_view key, absl::string_view what) const;

 private:
  Config(std::shared_ptr<const nlohmann::json> root,
         const nlohmann::json* object, std::string what, std::string path);

  // The value of a key, or null if it is absent or null.
  const nlohmann::json* Find(absl::string_view key) const;

  std::shared_ptr<const nlohmann::json> root_;
  const nlohmann::json* object_;
  std::string what_;  // "models/demo/config.json"
  std::string path_;  // "" or "attn."
};

// A name that a config.json may give, and what it means.
template <typename Value>
struct Choice {
  absl::string_view name;
  Value value;
};

// What a name that stands under a key means. UNIMPLEMENTED, naming the key, its
// value and the names there are, if it is none of them.
template <typename Value>
absl::StatusOr<Value> ChoiceOf(const Config& config, absl::string_view key,
                               absl::string_view name,
                               std::span<const Choice<Value>> choices) {
  const auto found = std::ranges::find(choices, name, &Choice<Value>::name);
  if (found != choices.end()) return found->value;
  const std::string names = absl::StrJoin(
      choices, ", ", [](std::string* out, const Choice<Value>& choice) {
        absl::StrAppend(out, "\"", choice.name, "\"");
      });
  return config.Unsupported(key, absl::StrCat("supported are ", names));
}

// What the name under a key means; the first choice if it is absent or null.
// Errors as ChoiceOf.
template <typename Value>
absl::StatusOr<Value> ReadChoice(const Config& config, absl::string_view key,
                                 std::span<const Choice<Value>> choices) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string name,
                               config.String(key, choices.front().name));
  return ChoiceOf(config, key, absl::string_view(name), choices);
}

// The version of a Python library. One of what comes before a release, such as
// "5.0.0.dev0" or "4.45.0rc1", is less than that release.
struct LibraryVersion {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t patch = 0;
  bool released = true;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const LibraryVersion&) const = default;
};

// "4.57.6", "5.0", "5.0.0.dev0"; nothing for what is no version.
std::optional<LibraryVersion> ParseLibraryVersion(absl::string_view text);

// The version of transformers that wrote a config.json: its
// "transformers_version". Nothing where it does not say so.
std::optional<LibraryVersion> TransformersVersion(const Config& config);

// True if flash-linear-attention before its version 0.6.0 wrote a config.json.
// It does not say so, but 0.6.0 needs transformers 5.6.2 or newer. Without a
// version of transformers: true.
bool IsBeforeFla06(const Config& config);

// For the log, of what versions of a library read differently: how it is read
// here, and which version to give to read it otherwise.
//   `how`, for transformers_version is 4.57.6; with
//   --transformers_version=`other`: `otherwise`
std::string ReadingOf(const Config& config, absl::string_view how,
                      absl::string_view other, absl::string_view otherwise);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_CONFIG_H_
