#ifndef STEADYSTATE_CLIENT_CLI_PROGRESS_BAR_H_
#define STEADYSTATE_CLIENT_CLI_PROGRESS_BAR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate::client {

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

#endif  // STEADYSTATE_CLIENT_CLI_PROGRESS_BAR_H_
