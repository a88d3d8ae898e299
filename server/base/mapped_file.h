#ifndef STEADYSTATE_SERVER_BASE_MAPPED_FILE_H_
#define STEADYSTATE_SERVER_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace steadystate {

// A file mapped read-only, for the length of the object's life. Movable.
// Thread-safe to read. The file must not be truncated meanwhile.
class MappedFile {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file), the
  // message naming the path. An empty file maps to no bytes.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole text of a file of at most `max_bytes`; RESOURCE_EXHAUSTED if it is
// longer, otherwise errors as MappedFile::Open.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_MAPPED_FILE_H_
