#ifndef STEADYSTATE_CLIENT_STEADYSTATE_NPY_WRITER_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_NPY_WRITER_H_

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace steadystate::client {

// Writes float32 rows to a NumPy file (.npy, format version 1.0) as they come,
// in memory that does not depend on their number. Until Finish the header says
// that there are none, so a file that was cut short cannot be taken for a whole
// one. Movable; confined to one thread.
class NpyWriter {
 public:
  // What the file holds: rows of equal length f32[rows, columns], or one number
  // for each row f32[rows].
  enum class Shape { kMatrix, kVector };

  // Creates `path`. An error says why that is not possible; FAILED_PRECONDITION
  // if the file has no place for a header to be filled in later (a pipe).
  static absl::StatusOr<NpyWriter> Open(const std::string& path, Shape shape);

  // Adds a row. INVALID_ARGUMENT if it is empty or not as long as the first
  // one, or not one number in a vector; otherwise as the disk says.
  absl::Status Append(std::span<const float> row);

  // Writes the final header and closes the file.
  // REQUIRES: not called before; no Append afterwards.
  absl::Status Finish();

 private:
  NpyWriter(const std::string& path, Shape shape, FILE* file)
      : path_(path), shape_(shape), file_(file, std::fclose) {}

  absl::Status WriteHeader();
  absl::Status Failure() const;

  std::string path_;
  Shape shape_;
  std::unique_ptr<FILE, int (*)(FILE*)> file_;
  size_t row_count_ = 0;
  size_t column_count_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_NPY_WRITER_H_
