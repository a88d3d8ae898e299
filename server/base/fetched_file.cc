#include "server/base/fetched_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/mapped_file.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

constexpr absl::string_view kLfsPointer =
    "version https://git-lfs.github.com/spec";
// Of a page's beginning, which blanks may come before.
constexpr size_t kLookedAt = 256;

bool IsPage(absl::string_view bytes) {
  const absl::string_view begin =
      absl::StripLeadingAsciiWhitespace(bytes.substr(0, kLookedAt));
  return absl::StartsWithIgnoreCase(begin, "<!doctype html") ||
         absl::StartsWithIgnoreCase(begin, "<html");
}

}  // namespace

absl::Status CheckIsFetched(absl::string_view path, absl::string_view bytes) {
  if (absl::StartsWith(bytes, kLfsPointer)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": this is what Git LFS leaves in a file's place, not the file: run "
        "`git lfs pull` where it was cloned, or fetch the model with `hf "
        "download`"));
  }
  if (IsPage(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": this is a web page, not the file, as links to pages bring them: "
        "fetch the model with `hf download`"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> ReadModelFile(
    const std::string& path, size_t max_bytes) {
  absl::StatusOr<std::string> text = ReadFile(path, max_bytes);
  if (absl::IsNotFound(text.status())) {
    std::error_code ignored;
    if (!std::filesystem::is_symlink(path, ignored)) {
      return std::optional<std::string>();
    }
    return absl::NotFoundError(absl::StrCat(
        path, ": this is a link to ",
        std::filesystem::read_symlink(path, ignored).string(),
        ", which is not there: fetch the model again with `hf download`"));
  }
  if (!text.ok()) return text.status();
  STEADYSTATE_RETURN_IF_ERROR(CheckIsFetched(path, *text));
  return std::optional<std::string>(*std::move(text));
}

}  // namespace steadystate
