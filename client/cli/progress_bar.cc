#include "client/cli/progress_bar.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace steadystate::client {
namespace {

constexpr absl::Duration kMoment = absl::Milliseconds(300);
constexpr absl::Duration kInterval = absl::Milliseconds(100);
constexpr size_t kDefaultColumns = 80;
constexpr size_t kMinBar = 8;
constexpr size_t kMaxBar = 40;
// Back to the first column, and clear to the end of the line.
constexpr absl::string_view kEraseLine = "\r\033[K";

std::string FormatRate(double per_second) {
  if (per_second >= 1e6) return absl::StrFormat("%.1fM/s", per_second / 1e6);
  if (per_second >= 1e3) return absl::StrFormat("%.1fk/s", per_second / 1e3);
  return absl::StrFormat("%.1f/s", per_second);
}

std::string FormatRemaining(double seconds) {
  const auto whole = static_cast<int64_t>(std::min(seconds, 359999.0) + 0.5);
  if (whole < 3600) {
    return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  }
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60,
                         whole % 60);
}

std::string FormatBar(double fraction, size_t length) {
  const auto filled =
      static_cast<size_t>(fraction * static_cast<double>(length));
  return absl::StrCat("[", std::string(filled, '#'),
                      std::string(length - filled, ' '), "]");
}

size_t TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultColumns;
  }
  return size.ws_col;
}

std::string FormatEndless(const Progress& progress, size_t columns) {
  return absl::StrCat(progress.task, "  ", progress.done, " ", progress.unit,
                      progress.note.empty() ? "" : "  ", progress.note)
      .substr(0, columns);
}

}  // namespace

std::string FormatProgress(const Progress& progress, size_t columns) {
  if (progress.total == Progress::kEndless) {
    return FormatEndless(progress, columns);
  }
  const size_t done = std::min(progress.done, progress.total);
  const double fraction =
      progress.total == 0
          ? 1.0
          : static_cast<double>(done) / static_cast<double>(progress.total);
  const double seconds = absl::ToDoubleSeconds(progress.elapsed);
  std::string line = absl::StrFormat("%s %3d%%", progress.task,
                                     static_cast<int>(fraction * 100));
  std::string tail =
      absl::StrCat(" ", done, "/", progress.total, " ", progress.unit);
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  if (!progress.note.empty()) {
    absl::StrAppend(&tail, "  ", progress.note);
  } else if (rate > 0) {
    absl::StrAppend(&tail, "  ", FormatRate(rate));
  }
  if (rate > 0) {
    absl::StrAppend(
        &tail, "  ",
        FormatRemaining(static_cast<double>(progress.total - done) / rate));
  }
  if (line.size() + tail.size() <= columns) {
    const size_t room = columns - line.size() - tail.size();
    // Two brackets and a blank.
    if (room >= kMinBar + 3) {
      absl::StrAppend(&line, " ",
                      FormatBar(fraction, std::min(room - 3, kMaxBar)));
    }
    line += tail;
  }
  return line.substr(0, columns);
}

ProgressBar::Terminal ProgressBar::StandardError() {
  if (isatty(STDERR_FILENO) == 0)
    return {nullptr, TerminalColumns, std::chrono::steady_clock::now};
  return {[](absl::string_view text) {
            std::fwrite(text.data(), 1, text.size(), stderr);
            std::fflush(stderr);
          },
          TerminalColumns, std::chrono::steady_clock::now};
}

ProgressBar::ProgressBar(absl::string_view task, absl::string_view unit,
                         size_t total, Terminal terminal)
    : task_(task),
      unit_(unit),
      total_(total),
      terminal_(std::move(terminal)),
      start_(terminal_.now()) {}

void ProgressBar::Update(size_t done, absl::string_view note) {
  if (!terminal_.write) return;
  const std::chrono::steady_clock::time_point now = terminal_.now();
  const absl::Duration elapsed = absl::FromChrono(now - start_);
  if (elapsed < kMoment) return;
  if (last_draw_ && absl::FromChrono(now - *last_draw_) < kInterval) return;
  last_draw_ = now;
  drawn_ = true;
  // A line that fills the last column wraps on some terminals.
  const size_t columns = std::max<size_t>(terminal_.columns(), 2) - 1;
  terminal_.write(absl::StrCat(
      kEraseLine,
      FormatProgress({task_, unit_, done, total_, elapsed, note}, columns)));
}

void ProgressBar::Erase() {
  if (!drawn_) return;
  terminal_.write(kEraseLine);
  drawn_ = false;
}

}  // namespace steadystate::client
