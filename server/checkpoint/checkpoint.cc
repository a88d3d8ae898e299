#include "server/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/json.h"
#include "server/base/mapped_file.h"
#include "server/base/sha256.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxIndexBytes = size_t{16} << 20;
constexpr size_t kMaxShards = 4096;

bool Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

absl::Status CheckDirectory(const std::string& directory) {
  struct stat info {};
  if (stat(directory.c_str(), &info) != 0) {
    return absl::NotFoundError(
        absl::StrCat("no checkpoint directory '", directory, "'"));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", directory,
                     "' is not a directory; give the directory with "
                     "config.json and model.safetensors"));
  }
  return absl::OkStatus();
}

// A shard lies beside its index: its name must not lead anywhere else.
bool IsPlainFileName(absl::string_view name) {
  return absl::EndsWith(name, ".safetensors") && name.size() <= 255 &&
         !absl::StrContains(name, "/") && !absl::StrContains(name, "\\") &&
         !absl::StrContains(name, "..") &&
         !absl::StrContains(name, absl::string_view("\0", 1));
}

absl::StatusOr<json> ReadWeightMap(const std::string& path,
                                   const std::string& text) {
  STEADYSTATE_ASSIGN_OR_RETURN(json index,
                               ParseJson(text, path, {.max_depth = 8}));
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no object 'weight_map'"));
  }
  return std::move(index["weight_map"]);
}

void HashFile(std::span<const std::byte> bytes, Sha256& hash) {
  std::byte length[8];
  for (size_t i = 0; i < 8; ++i) {
    length[i] = static_cast<std::byte>(uint64_t{bytes.size()} >> (8 * i));
  }
  hash.Update(length);
  hash.Update(bytes);
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& directory) {
  STEADYSTATE_RETURN_IF_ERROR(CheckDirectory(directory));
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.config_path_ = absl::StrCat(directory, "/config.json");
  STEADYSTATE_ASSIGN_OR_RETURN(
      checkpoint.config_text_,
      ReadFile(checkpoint.config_path_, kMaxConfigBytes));
  const std::string single = absl::StrCat(directory, "/model.safetensors");
  const std::string index = absl::StrCat(single, ".index.json");
  if (Exists(single)) {
    STEADYSTATE_RETURN_IF_ERROR(checkpoint.OpenSingle(single));
  } else if (Exists(index)) {
    STEADYSTATE_RETURN_IF_ERROR(checkpoint.OpenShards(directory, index));
  } else {
    return absl::NotFoundError(absl::StrCat(
        directory, ": neither model.safetensors nor ",
        "model.safetensors.index.json; other formats must be converted"));
  }
  return checkpoint;
}

absl::Status Checkpoint::OpenSingle(const std::string& path) {
  STEADYSTATE_ASSIGN_OR_RETURN(SafetensorsFile file,
                               SafetensorsFile::Open(path));
  const auto placed =
      files_.emplace("model.safetensors", std::move(file)).first;
  for (const auto& [name, tensor] : placed->second.tensors()) {
    tensors_.emplace(name, &tensor);
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::OpenShards(const std::string& directory,
                                    const std::string& index_path) {
  STEADYSTATE_ASSIGN_OR_RETURN(index_text_,
                               ReadFile(index_path, kMaxIndexBytes));
  STEADYSTATE_ASSIGN_OR_RETURN(const json weight_map,
                               ReadWeightMap(index_path, index_text_));
  for (const auto& [name, value] : weight_map.items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (!IsPlainFileName(shard)) {
      return absl::InvalidArgumentError(absl::StrCat(
          index_path, ": tensor '", name, "' is said to be in '",
          shard.substr(0, 200), "', which is not the plain name of a ",
          ".safetensors file"));
    }
    auto file = files_.find(shard);
    if (file == files_.end()) {
      if (files_.size() == kMaxShards) {
        return absl::InvalidArgumentError(absl::StrCat(
            index_path, ": more than ", kMaxShards, " weight files"));
      }
      STEADYSTATE_ASSIGN_OR_RETURN(
          SafetensorsFile opened,
          SafetensorsFile::Open(absl::StrCat(directory, "/", shard)));
      file = files_.emplace(shard, std::move(opened)).first;
    }
    const auto tensor = file->second.tensors().find(name);
    if (tensor == file->second.tensors().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": tensor '", name, "' is said to be in '",
                       shard, "', which does not have it"));
    }
    tensors_.emplace(name, &tensor->second);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Checkpoint::Fingerprint(
    absl::string_view read_as) const {
  Sha256 hash;
  HashFile(std::as_bytes(std::span(config_text_)), hash);
  if (!index_text_.empty()) {
    HashFile(std::as_bytes(std::span(index_text_)), hash);
  }
  for (const auto& [name, file] : files_) HashFile(file.bytes(), hash);
  if (!read_as.empty()) {
    HashFile(std::as_bytes(std::span(read_as.data(), read_as.size())), hash);
  }
  return hash.FinishHex();
}

}  // namespace steadystate
