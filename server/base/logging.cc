#include "server/base/logging.h"

#include <unistd.h>

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/base/line_writer.h"

namespace steadystate {

std::optional<uint64_t> LogLimiter::Admit(Time now) {
  const MutexLock lock(mutex_);
  if (!start_.has_value() || now - *start_ >= kSpan) {
    start_ = now;
    lines_ = 0;
  }
  if (lines_ == kLines) {
    ++left_out_;
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(left_out_, 0);
}

namespace {

constexpr size_t kQueueBytes = size_t{256} << 10;

// Up to this pipes keep a line in one piece, whoever else writes to them.
constexpr size_t kMaxLineBytes = 4096;

std::atomic<LogLevel> min_level{LogLevel::kInfo};

// Null before StartLogThread; never destroyed.
std::atomic<LineWriter*> writer{nullptr};

std::atomic<uint64_t> left_out_by_limiters{0};

absl::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
    case LogLevel::kOff:
      return "ERROR";
  }
  return "?";
}

bool NeedsQuotes(absl::string_view value) {
  return value.empty() ||
         value.find_first_of(" \"\\=\n\r\t") != absl::string_view::npos;
}

void Cut(std::string& line) {
  if (line.size() < kMaxLineBytes) return;
  constexpr size_t kNoteBytes = 64;
  const size_t kept = kMaxLineBytes - kNoteBytes;
  const size_t cut = line.size() - kept;
  line.resize(kept);
  absl::StrAppend(&line, "... (", cut, " bytes more)");
}

void AppendField(std::string& line, const LogField& field) {
  absl::StrAppend(&line, " ", field.key, "=");
  if (NeedsQuotes(field.value)) {
    absl::StrAppend(&line, "\"", absl::CEscape(field.value), "\"");
  } else {
    absl::StrAppend(&line, field.value);
  }
}

std::string Format(LogLevel level, absl::string_view message,
                   std::span<const LogField> fields) {
  std::string line = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                      absl::UTCTimeZone());
  absl::StrAppend(&line, " ", LevelName(level), " ", message);
  for (const LogField& field : fields) AppendField(line, field);
  return line;
}

std::string NoteOfDropped(uint64_t lines) {
  std::string line = Format(LogLevel::kWarning, "log lines dropped", {});
  AppendField(line, {"lines", lines});
  line.push_back('\n');
  return line;
}

void Write(std::string text) {
  LineWriter* const thread = writer.load(std::memory_order_acquire);
  if (thread != nullptr) {
    thread->Write(std::move(text));
    return;
  }
  // Nothing sensible can be done when standard error is gone.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
}

void WriteLine(std::string line) {
  Cut(line);
  line.push_back('\n');
  Write(std::move(line));
}

bool IsWritten(LogLevel level) {
  return level >= min_level.load(std::memory_order_relaxed);
}

}  // namespace

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  if (!IsWritten(level)) return;
  WriteLine(Format(level, message, {fields.begin(), fields.size()}));
}

void LogLimited(LogLimiter& limiter, LogLevel level, absl::string_view message,
                std::initializer_list<LogField> fields) {
  if (!IsWritten(level)) return;
  const std::optional<uint64_t> left_out =
      limiter.Admit(std::chrono::steady_clock::now());
  if (!left_out.has_value()) {
    left_out_by_limiters.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::string line = Format(level, message, {fields.begin(), fields.size()});
  if (*left_out > 0) AppendField(line, {"left_out", *left_out});
  WriteLine(std::move(line));
}

void LogPlain(absl::string_view text) { Write(std::string(text)); }

void StartLogThread() {
  writer.store(new LineWriter(STDERR_FILENO, kQueueBytes, &NoteOfDropped),
               std::memory_order_release);
}

void FlushLog(std::chrono::milliseconds timeout) {
  const LineWriter* const thread = writer.load(std::memory_order_acquire);
  if (thread != nullptr) thread->Flush(timeout);
}

uint64_t DroppedLogLines() {
  const LineWriter* const thread = writer.load(std::memory_order_acquire);
  return left_out_by_limiters.load(std::memory_order_relaxed) +
         (thread == nullptr ? 0 : thread->dropped());
}

void SetMinLogLevel(LogLevel level) {
  min_level.store(level, std::memory_order_relaxed);
}

}  // namespace steadystate
