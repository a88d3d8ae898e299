#include "server/checkpoint/library_version.h"

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace steadystate {
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
