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
#include "absl/strings/strip.h"
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
  absl::string_view name = given;
  if (absl::ConsumePrefix(&name, "https://huggingface.co/")) {
    absl::ConsumeSuffix(&name, "/");
  }
  if (!IsHubName(name)) {
    return absl::NotFoundError(
        absl::StrCat("no checkpoint directory '", given, "'"));
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  return absl::NotFoundError(absl::StrCat(
      "no checkpoint directory '", given,
      "'. If that is a model's name on Hugging Face's hub, it has not been "
      "fetched: `hf download ",
      name, " --local-dir ", parts[1], "`, and then --model ", parts[1]));
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

// What to do with a file of weights in a form that is not read, for people, as
// further sentences; nothing for other files.
std::string AboutWeights(const std::string& path) {
  if (absl::EndsWith(path, ".gguf")) {
    return "a format that is not read: fetch the model's safetensors";
  }
  const bool rwkv = absl::EndsWith(path, ".pth");
  if (!rwkv && !absl::EndsWith(path, ".bin") && !absl::EndsWith(path, ".pt")) {
    return "";
  }
  return absl::StrCat(
      "which is pickled: reading that can run code, so it is converted "
      "beforehand: `deploy/models/convert.py ",
      rwkv ? path : fs::path(path).parent_path().string(), " DESTINATION` for ",
      rwkv ? "RWKV" : "Mamba",
      ", or load it with its library and save it with safe_serialization");
}

// The same of the first such file in a directory, pickled ones before others.
std::string OtherWeightsIn(const std::string& directory) {
  std::string told;
  for (const std::string& name : NamesIn(directory)) {
    const std::string about = AboutWeights(absl::StrCat(directory, "/", name));
    if (about.empty()) continue;
    if (told.empty() || absl::StartsWith(about, "which is pickled")) {
      told = absl::StrCat(". It has ", name, ", ", about);
    }
  }
  return told;
}

absl::Status NoDirectory(const std::string& given) {
  const std::string about = AboutWeights(given);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", given, "' is not a directory",
      about.empty() ? "; give the directory with config.json and "
                      "model.safetensors"
                    : absl::StrCat(", but a file of weights, ", about)));
}

}  // namespace

absl::StatusOr<FoundCheckpoint> FindCheckpoint(const std::string& given) {
  if (!IsThere(given)) return NothingThere(given);
  if (!IsDirectory(given)) return NoDirectory(given);
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
  const std::string other = OtherWeightsIn(given);
  return absl::NotFoundError(
      absl::StrCat(given, ": no config.json",
                   other.empty() ? "; give the directory that has it, with "
                                   "model.safetensors or its shards beside it"
                                 : other));
}

absl::Status NoWeights(const std::string& directory) {
  const std::string other = OtherWeightsIn(directory);
  return absl::NotFoundError(absl::StrCat(
      directory, ": neither model.safetensors nor model.safetensors.index.json",
      other.empty() ? ". Were its weights fetched? `hf download` does"
                    : other));
}

}  // namespace steadystate
