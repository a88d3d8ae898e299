#include "server/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/mapped_file.h"

namespace steadystate {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kCachePrefix = "models--";
constexpr size_t kMaxRefBytes = 256;
// Names that an error tells.
constexpr size_t kMaxTold = 8;

bool IsDirectory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsThere(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool HasConfig(const std::string& directory) {
  return IsThere(absl::StrCat(directory, "/config.json"));
}

// The last part of a path, as it is written if that names something.
std::string BaseName(const std::string& path) {
  fs::path name = fs::path(path).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  if (name.filename() != "." && name.filename() != "..") {
    return name.filename().string();
  }
  std::error_code ignored;
  return fs::canonical(path, ignored).filename().string();
}

// ORG/NAME, as models are called on the hub.
bool IsHubName(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  return parts.size() == 2 &&
         std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
           return !part.empty() && part.size() <= 96 && part[0] != '.' &&
                  std::all_of(part.begin(), part.end(), [](char c) {
                    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                           c == '-' || c == '_' || c == '.';
                  });
         });
}

absl::Status NothingThere(const std::string& given) {
  if (!IsHubName(given)) {
    return absl::NotFoundError(
        absl::StrCat("no checkpoint directory '", given, "'"));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(given, '/');
  return absl::NotFoundError(absl::StrCat(
      "no checkpoint directory '", given,
      "'. If that is a model's name on Hugging Face's hub, it has not been "
      "fetched: `hf download ",
      given, " --local-dir ", parts[1], "`, and then --model ", parts[1]));
}

// The names within a directory, in their order.
std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator next(directory, error), end;
       !error && next != end; next.increment(error)) {
    names.push_back(next->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// "models--org--name" -> "name".
std::string NameInCache(absl::string_view folder) {
  const size_t last = folder.rfind("--");
  return std::string(folder.substr(last + 2));
}

// Of a model's folder in the hub's cache.
absl::StatusOr<std::string> RevisionIn(const std::string& folder) {
  const std::string snapshots = absl::StrCat(folder, "/snapshots");
  std::vector<std::string> revisions;
  for (std::string& name : NamesIn(snapshots)) {
    if (HasConfig(absl::StrCat(snapshots, "/", name))) {
      revisions.push_back(std::move(name));
    }
  }
  const absl::StatusOr<std::string> main =
      ReadFile(absl::StrCat(folder, "/refs/main"), kMaxRefBytes);
  if (main.ok()) {
    const absl::string_view wanted = absl::StripAsciiWhitespace(*main);
    const auto found =
        std::find(revisions.begin(), revisions.end(), std::string(wanted));
    if (found != revisions.end()) return absl::StrCat(snapshots, "/", *found);
  }
  if (revisions.size() == 1) return absl::StrCat(snapshots, "/", revisions[0]);
  if (revisions.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder,
                     ": no revision in snapshots/ has a config.json; "
                     "fetch the model again with `hf download`"));
  }
  revisions.resize(std::min(revisions.size(), kMaxTold));
  return absl::InvalidArgumentError(absl::StrCat(
      folder, ": refs/main names none of its revisions; give one of them: ",
      snapshots, "/ and ", absl::StrJoin(revisions, ", ")));
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& given) {
  if (!IsThere(given)) return NothingThere(given);
  if (!IsDirectory(given)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", given,
                     "' is not a directory; give the directory with "
                     "config.json and model.safetensors"));
  }
  const std::string name = BaseName(given);
  if (HasConfig(given)) {
    // A revision within a cache is called as its model is.
    fs::path folder = fs::path(given).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();
    folder = folder.parent_path();
    const std::string above = folder.parent_path().filename().string();
    if (folder.filename() == "snapshots" &&
        absl::StartsWith(above, kCachePrefix)) {
      return FoundCheckpoint{.directory = given, .name = NameInCache(above)};
    }
    return FoundCheckpoint{.directory = given, .name = name};
  }
  if (absl::StartsWith(name, kCachePrefix) &&
      IsDirectory(absl::StrCat(given, "/snapshots"))) {
    absl::StatusOr<std::string> revision = RevisionIn(given);
    if (!revision.ok()) return revision.status();
    return FoundCheckpoint{.directory = *std::move(revision),
                           .name = NameInCache(name)};
  }
  return absl::NotFoundError(
      absl::StrCat(given,
                   ": no config.json; give the directory that has it, with "
                   "model.safetensors or its shards beside it"));
}

absl::Status NoWeights(const std::string& directory) {
  std::string pickled;
  std::string gguf;
  for (const std::string& name : NamesIn(directory)) {
    if (absl::EndsWith(name, ".gguf")) gguf = name;
    if (absl::EndsWith(name, ".bin") || absl::EndsWith(name, ".pth") ||
        absl::EndsWith(name, ".pt")) {
      pickled = name;
    }
  }
  std::string what = absl::StrCat(
      directory,
      ": neither model.safetensors nor model.safetensors.index.json");
  if (!pickled.empty()) {
    absl::StrAppend(
        &what, ". It has ", pickled,
        ", which is pickled: reading that can run code, so it is converted "
        "beforehand: `deploy/models/convert.py ",
        directory,
        " DESTINATION` for Mamba and RWKV, or load it with its "
        "library and save it with safe_serialization");
  } else if (!gguf.empty()) {
    absl::StrAppend(&what, ". It has ", gguf,
                    ", a format that is not read: fetch the model's "
                    "safetensors");
  } else {
    absl::StrAppend(&what, ". Were its weights fetched? `hf download` does");
  }
  return absl::NotFoundError(what);
}

absl::Status CheckIsNoLfsPointer(absl::string_view path,
                                 absl::string_view bytes) {
  constexpr absl::string_view kBegin =
      "version https://git-lfs.github.com/spec";
  if (!absl::StartsWith(bytes, kBegin)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": this is what Git LFS leaves in a file's place, not the file: run `git "
      "lfs pull` where it was cloned, or fetch the model with `hf download`"));
}

}  // namespace steadystate
