#ifndef STEADYSTATE_SERVER_CHECKPOINT_CHECKPOINT_H_
#define STEADYSTATE_SERVER_CHECKPOINT_CHECKPOINT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/mapped_file.h"

namespace steadystate {

// A tensor where it lies in a mapped file.
struct StoredTensor {
  std::string dtype;          // as the file spells it: "F32", "BF16", "I64"
  std::vector<size_t> shape;  // [] is a scalar
  const std::byte* data = nullptr;  // any alignment
  size_t bytes = 0;                 // product of shape times the element's size
};

// The tensors, by name, of the bytes of a .safetensors file, in which their
// data stays; `what` names it in messages. Errors as SafetensorsFile::Open.
absl::StatusOr<std::map<std::string, StoredTensor>> ReadTensors(
    absl::string_view what, std::span<const std::byte> file);

// One .safetensors file: 8 bytes of header length, a JSON header, the data.
// https://github.com/huggingface/safetensors#format
// Immutable; thread-safe.
class SafetensorsFile {
 public:
  // Maps a file and checks its header before anything of a size that it claims
  // is allocated: a header of at most 16 MiB that begins with '{', at most
  // 100,000 tensors, known dtypes, shapes that agree with the data offsets, and
  // tensors that cover the data exactly, without overlap or hole.
  // Errors: those of MappedFile::Open; INVALID_ARGUMENT naming the file and the
  // tensor for each broken rule.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);

  // By name. Valid as long as this object.
  const std::map<std::string, StoredTensor>& tensors() const {
    return tensors_;
  }

  // The whole file.
  std::span<const std::byte> bytes() const { return file_.bytes(); }

 private:
  SafetensorsFile(MappedFile file, std::map<std::string, StoredTensor> tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  MappedFile file_;
  std::map<std::string, StoredTensor> tensors_;
};

// What may refuse a config.json; `path` names it in messages.
using ConfigCheck =
    std::function<absl::Status(absl::string_view text, absl::string_view path)>;

// The files of a checkpoint directory: config.json and the weights, in one
// model.safetensors or in the shards that model.safetensors.index.json lists.
// Immutable; thread-safe.
class Checkpoint {
 public:
  // NOT_FOUND if the directory or a file is missing; INVALID_ARGUMENT, naming
  // file and tensor, if it is no directory, a file is malformed, or the index
  // names a file outside of the directory or a tensor that its shard lacks.
  // `given`: as FindCheckpoint takes it. `check`: looks at config.json before
  // weights are looked for, which are not worth fetching if it refuses that.
  static absl::StatusOr<Checkpoint> Open(const std::string& given,
                                         const ConfigCheck& check = {});

  const std::string& directory() const { return directory_; }
  // What the model is called by where it lies.
  const std::string& name() const { return name_; }
  const std::string& config_path() const { return config_path_; }
  const std::string& config_text() const { return config_text_; }

  // By name. Valid as long as this object.
  const std::map<std::string, const StoredTensor*>& tensors() const {
    return tensors_;
  }

  // SHA-256 of all files, in 64 hexadecimal digits: config.json, the index if
  // there is one, the weight files by name; each preceded by its length in 8
  // bytes, little-endian. File names and places do not count. A version that
  // the checkpoint is read as, unless empty, follows in the same way. INTERNAL
  // as Sha256.
  absl::StatusOr<std::string> Fingerprint(absl::string_view read_as = "") const;

 private:
  absl::Status OpenSingle(const std::string& path);
  absl::Status OpenShards(const std::string& directory,
                          const std::string& index_path);

  std::string directory_;
  std::string name_;
  std::string config_path_;
  std::string config_text_;
  std::string index_text_;
  std::map<std::string, SafetensorsFile> files_;  // by file name
  std::map<std::string, const StoredTensor*> tensors_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_CHECKPOINT_CHECKPOINT_H_
