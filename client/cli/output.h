#ifndef STEADYSTATE_CLIENT_CLI_OUTPUT_H_
#define STEADYSTATE_CLIENT_CLI_OUTPUT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace steadystate::client {

// JSON whose members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Writes to standard output at once, past its buffer. An error says why that is
// not possible, such as a reader that has gone.
absl::Status Print(absl::string_view text);

// True of Print's error where nobody reads any more, as after `| head`: there
// is nothing to tell anybody about.
bool IsReaderGone(const absl::Status& status);

// "CODE REASON: message (try again in 1s)": an error for people. Where the
// message says itself to try again, "(in 1s)".
// REQUIRES: !status.ok().
std::string Described(const absl::Status& status);

// Whether WriteFile may succeed: INVALID_ARGUMENT names the path and the cause.
absl::Status CheckWritable(const std::string& path);

// Writes a file that is there only when all of it is: under another name first,
// "PATH.part". An error names the path and the cause.
absl::Status WriteFile(const std::string& path, absl::string_view content);

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

// How far a task of known length has come.
struct Progress {
  absl::string_view task;  // "score"
  absl::string_view unit;  // "tokens"
  size_t done = 0;
  size_t total = 0;
  absl::Duration elapsed;
  // Shown in place of the rate, if not empty.
  absl::string_view note = {};

  // The total of a task that nobody knows the end of: it has no bar.
  static constexpr size_t kEndless = SIZE_MAX;
};

// One line about a progress, at most `columns` wide: percentage, bar, count,
// rate and the time that remains. Where it is too narrow the bar is left out
// first, then all but the percentage.
//   score  42% [########            ] 420/1000 tokens  26.2/s  0:22
std::string FormatProgress(const Progress& progress, size_t columns);

// A line that shows progress and disappears at the end. Draws nothing while a
// task has taken less than a moment, and never more than ten times a second.
// Confined to one thread.
class ProgressBar {
 public:
  // Where and how a bar is drawn.
  struct Terminal {
    std::function<void(absl::string_view)> write;
    std::function<size_t()> columns;
    std::function<std::chrono::steady_clock::time_point()> now;
  };

  // Standard error if it is a terminal; otherwise one that draws nothing.
  static Terminal StandardError();

  // `total` is in the unit that is counted, such as "tokens". A terminal
  // without `write` draws nothing.
  ProgressBar(absl::string_view task, absl::string_view unit, size_t total,
              Terminal terminal);
  ~ProgressBar() { Erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Says that `done` of the total are done. `note`: see Progress.
  void Update(size_t done, absl::string_view note = {});

  // Takes the line away, so that other text can be written. A later Update
  // draws it again.
  void Erase();

 private:
  const std::string task_;
  const std::string unit_;
  const size_t total_;
  const Terminal terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::optional<std::chrono::steady_clock::time_point> last_draw_;
  bool drawn_ = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_OUTPUT_H_
