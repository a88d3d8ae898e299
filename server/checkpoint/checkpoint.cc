#include "server/checkpoint/checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/fetched_file.h"
#include "server/base/json.h"
#include "server/base/mapped_file.h"
#include "server/base/sha256.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/find_checkpoint.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxHeaderBytes = size_t{16} << 20;
constexpr size_t kMaxTensors = 100'000;
constexpr size_t kMaxDimensions = 16;
constexpr absl::string_view kMetadataKey = "__metadata__";

struct ElementType {
  absl::string_view name;
  size_t bytes;
};
constexpr ElementType kElementTypes[] = {
    {"F32", 4}, {"BF16", 2}, {"F16", 2},  {"F64", 8},     {"I64", 8},
    {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
    {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

std::optional<size_t> ElementBytes(absl::string_view dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == dtype) return type.bytes;
  }
  return std::nullopt;
}

std::optional<size_t> Unsigned(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<size_t>();
}

absl::Status FileError(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

// Where a tensor's bytes lie in the data section.
struct Extent {
  size_t begin = 0;
  size_t end = 0;
  const std::string* name = nullptr;
};

// Reads the headers of one file's tensors and checks each by itself.
class HeaderReader {
 public:
  HeaderReader(absl::string_view path, std::span<const std::byte> data)
      : path_(path), data_(data) {}

  absl::Status Read(const std::string& name, const json& header) {
    if (!header.is_object()) return Error(name, "its header is not an object");
    StoredTensor tensor;
    STEADYSTATE_RETURN_IF_ERROR(ReadShape(name, header, tensor));
    STEADYSTATE_ASSIGN_OR_RETURN(const Extent extent,
                                 ReadOffsets(name, header));
    if (extent.end - extent.begin != tensor.bytes) {
      return Error(
          name,
          absl::StrCat("its data offsets span ", extent.end - extent.begin,
                       " bytes, its shape and dtype need ", tensor.bytes));
    }
    tensor.data = data_.data() + extent.begin;
    const auto placed = tensors_.emplace(name, std::move(tensor)).first;
    extents_.push_back({extent.begin, extent.end, &placed->first});
    return absl::OkStatus();
  }

  // Checks that the tensors cover the data exactly.
  absl::Status CheckCoverage() {
    std::sort(extents_.begin(), extents_.end(),
              [](const Extent& a, const Extent& b) {
                return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
              });
    size_t covered = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin < covered) {
        return Error(*extent.name,
                     absl::StrCat("its data begins at byte ", extent.begin,
                                  " and overlaps the tensor that ends at byte ",
                                  covered));
      }
      if (extent.begin > covered) {
        return Error(*extent.name,
                     absl::StrCat("bytes ", covered, " to ", extent.begin,
                                  " before it belong to no tensor"));
      }
      covered = extent.end;
    }
    if (covered != data_.size()) {
      return FileError(path_,
                       absl::StrCat("the tensors end at byte ", covered,
                                    " of the data, which has ", data_.size(),
                                    " bytes: the rest belongs to no tensor"));
    }
    return absl::OkStatus();
  }

  std::map<std::string, StoredTensor> Take() && { return std::move(tensors_); }

 private:
  absl::Status Error(absl::string_view name, absl::string_view what) const {
    return FileError(path_, absl::StrCat("tensor '", name, "': ", what));
  }

  absl::Status ReadShape(const std::string& name, const json& header,
                         StoredTensor& tensor) const {
    const auto dtype = header.find("dtype");
    if (dtype == header.end() || !dtype->is_string()) {
      return Error(name, "it has no dtype");
    }
    tensor.dtype = dtype->get<std::string>();
    const std::optional<size_t> element_bytes = ElementBytes(tensor.dtype);
    if (!element_bytes.has_value()) {
      return Error(name, absl::StrCat("its dtype '", tensor.dtype.substr(0, 32),
                                      "' is unknown"));
    }
    const auto shape = header.find("shape");
    if (shape == header.end() || !shape->is_array() ||
        shape->size() > kMaxDimensions) {
      return Error(name, absl::StrCat("it has no shape of at most ",
                                      kMaxDimensions, " dimensions"));
    }
    tensor.bytes = *element_bytes;
    for (const json& dimension : *shape) {
      const std::optional<size_t> size = Unsigned(dimension);
      if (!size.has_value()) {
        return Error(name, "a dimension is not a whole number >= 0");
      }
      if (*size != 0 &&
          tensor.bytes > std::numeric_limits<size_t>::max() / *size) {
        return Error(name, "the product of its shape overflows");
      }
      tensor.bytes *= *size;
      tensor.shape.push_back(*size);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Extent> ReadOffsets(const std::string& name,
                                     const json& header) const {
    const auto offsets = header.find("data_offsets");
    if (offsets == header.end() || !offsets->is_array() ||
        offsets->size() != 2) {
      return Error(name, "it has no pair of data_offsets");
    }
    const std::optional<size_t> begin = Unsigned((*offsets)[0]);
    const std::optional<size_t> end = Unsigned((*offsets)[1]);
    if (!begin.has_value() || !end.has_value() || *begin > *end) {
      return Error(name, "its data_offsets are not a range");
    }
    if (*end > data_.size()) {
      return Error(
          name, absl::StrCat("its data ends at byte ", *end,
                             " of the data section, which has ", data_.size(),
                             " bytes; is the file truncated?"));
    }
    return Extent{*begin, *end};
  }

  const absl::string_view path_;
  const std::span<const std::byte> data_;
  std::map<std::string, StoredTensor> tensors_;
  std::vector<Extent> extents_;
};

// The JSON text of the header, bounds checked.
absl::StatusOr<absl::string_view> HeaderText(absl::string_view path,
                                             std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return FileError(path, absl::StrCat(file.size(),
                                        " bytes are too few for a safetensors "
                                        "file; is it truncated?"));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return FileError(path,
                     absl::StrCat("a header of ", length, " bytes; at most ",
                                  kMaxHeaderBytes, " are allowed"));
  }
  if (length > file.size() - kLengthBytes) {
    return FileError(
        path, absl::StrCat("a header of ", length, " bytes in a file of ",
                           file.size(), "; is it truncated?"));
  }
  const absl::string_view text(
      reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  if (text.empty() || text[0] != '{') {
    return FileError(path, "the header does not begin with '{'");
  }
  return text;
}

}  // namespace

absl::StatusOr<std::map<std::string, StoredTensor>> ReadTensors(
    absl::string_view what, std::span<const std::byte> file) {
  STEADYSTATE_RETURN_IF_ERROR(CheckIsFetched(
      what, {reinterpret_cast<const char*>(file.data()), file.size()}));
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view text,
                               HeaderText(what, file));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const json header,
      ParseJson(text, absl::StrCat(what, ": header"),
                {.max_bytes = kMaxHeaderBytes, .max_depth = 8}));
  if (header.size() > kMaxTensors) {
    return FileError(what, absl::StrCat(header.size(), " tensors; at most ",
                                        kMaxTensors, " are allowed"));
  }
  HeaderReader reader(what, file.subspan(kLengthBytes + text.size()));
  for (const auto& [name, value] : header.items()) {
    if (absl::string_view(name) == kMetadataKey) continue;
    STEADYSTATE_RETURN_IF_ERROR(reader.Read(name, value));
  }
  STEADYSTATE_RETURN_IF_ERROR(reader.CheckCoverage());
  return std::move(reader).Take();
}

absl::StatusOr<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  STEADYSTATE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  STEADYSTATE_ASSIGN_OR_RETURN(auto tensors, ReadTensors(path, file.bytes()));
  return SafetensorsFile(std::move(file), std::move(tensors));
}

namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr size_t kMaxIndexBytes = size_t{16} << 20;
constexpr size_t kMaxShards = 4096;

bool Exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
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

absl::Status NoShard(const std::string& path, const std::string& index_path) {
  return absl::NotFoundError(
      absl::StrCat("there is no ", path, ", which ", index_path,
                   " names. Were all shards fetched? `hf download` goes on "
                   "where it ended"));
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

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& given,
                                            const ConfigCheck& check) {
  STEADYSTATE_ASSIGN_OR_RETURN(FoundCheckpoint found, FindCheckpoint(given));
  Checkpoint checkpoint;
  checkpoint.directory_ = std::move(found.directory);
  checkpoint.name_ = std::move(found.name);
  const std::string& directory = checkpoint.directory_;
  checkpoint.config_path_ = absl::StrCat(directory, "/config.json");
  STEADYSTATE_ASSIGN_OR_RETURN(
      checkpoint.config_text_,
      ReadFile(checkpoint.config_path_, kMaxConfigBytes));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckIsFetched(checkpoint.config_path_, checkpoint.config_text_));
  if (check) {
    STEADYSTATE_RETURN_IF_ERROR(
        check(checkpoint.config_text_, checkpoint.config_path_));
  }
  const std::string single = absl::StrCat(directory, "/model.safetensors");
  const std::string index = absl::StrCat(single, ".index.json");
  if (Exists(single)) {
    STEADYSTATE_RETURN_IF_ERROR(checkpoint.OpenSingle(single));
  } else if (Exists(index)) {
    STEADYSTATE_RETURN_IF_ERROR(checkpoint.OpenShards(directory, index));
  } else {
    return NoWeights(directory);
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
  STEADYSTATE_RETURN_IF_ERROR(CheckIsFetched(index_path, index_text_));
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
      const std::string path = absl::StrCat(directory, "/", shard);
      if (!Exists(path)) return NoShard(path, index_path);
      STEADYSTATE_ASSIGN_OR_RETURN(SafetensorsFile opened,
                                   SafetensorsFile::Open(path));
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
