#ifndef STEADYSTATE_CLIENT_CLI_OUTPUT_H_
#define STEADYSTATE_CLIENT_CLI_OUTPUT_H_

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace steadystate::client {

// JSON whose members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Writes to standard output at once, past its buffer. An error says why that is
// not possible, such as a reader that has gone.
absl::Status Print(absl::string_view text);

// Print, as indented JSON and a line end.
absl::Status PrintJson(const Json& json);

// A message as JSON with the names of the contract: every field, 64-bit numbers
// as numbers, enums by name, times as RFC 3339, durations in seconds. Optional
// fields and messages that are not set are left out.
Json ToJson(const google::protobuf::Message& message);

// The members of an object, one to a line and aligned, for people. Arrays of
// objects are counted, not shown.
std::string FormatLines(const Json& object);

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

#endif  // STEADYSTATE_CLIENT_CLI_OUTPUT_H_
