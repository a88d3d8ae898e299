#include "server/base/fetched_file.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

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

}  // namespace steadystate
