#include "server/base/logging.h"

#include <unistd.h>

#include <atomic>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
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
std::atomic<LogFormat> log_format{LogFormat::kText};

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

std::string TextLine(absl::string_view time, LogLevel level,
                     absl::string_view message,
                     std::span<const LogField> fields) {
  std::string line = absl::StrCat(time, " ", LevelName(level), " ", message);
  for (const LogField& field : fields) AppendField(line, field);
  Cut(line);
  return line;
}

// As a JSON string; U+FFFD for what is not UTF-8.
void AppendJson(std::string& line, absl::string_view text) {
  using nlohmann::json;
  line += json(std::string(text))
              .dump(-1, ' ', false, json::error_handler_t::replace);
}

// What has no room is left out, and an object it stays.
void AppendMember(std::string& line, absl::string_view key,
                  absl::string_view value, bool& cut) {
  constexpr absl::string_view kCut = ",\"cut\":\"true\"}";
  std::string member = line.empty() ? "{" : ",";
  AppendJson(member, key);
  member.push_back(':');
  AppendJson(member, value);
  if (line.size() + member.size() + kCut.size() < kMaxLineBytes) {
    line.append(member);
  } else {
    cut = true;
  }
}

std::string JsonLine(absl::string_view time, LogLevel level,
                     absl::string_view message,
                     std::span<const LogField> fields) {
  constexpr size_t kMostMessage = 512;
  std::string line;
  bool cut = message.size() > kMostMessage;
  AppendMember(line, "time", time, cut);
  AppendMember(line, "level", LevelName(level), cut);
  AppendMember(line, "message", message.substr(0, kMostMessage), cut);
  for (const LogField& field : fields) {
    AppendMember(line, field.key, field.value, cut);
  }
  absl::StrAppend(&line, cut ? ",\"cut\":\"true\"" : "", "}");
  return line;
}

std::string Format(LogLevel level, absl::string_view message,
                   std::span<const LogField> fields) {
  const std::string time = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                            absl::UTCTimeZone());
  return log_format.load(std::memory_order_relaxed) == LogFormat::kJson
             ? JsonLine(time, level, message, fields)
             : TextLine(time, level, message, fields);
}

std::string NoteOfDropped(uint64_t lines) {
  const std::string count = absl::StrCat(lines);
  const LogField field("lines", count);
  return absl::StrCat(
      Format(LogLevel::kWarning, "log lines dropped", {&field, 1}), "\n");
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
  line.push_back('\n');
  Write(std::move(line));
}

}  // namespace

bool IsLogged(LogLevel level) {
  return level >= min_level.load(std::memory_order_relaxed);
}

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  if (!IsLogged(level)) return;
  WriteLine(Format(level, message, {fields.begin(), fields.size()}));
}

void LogLimited(LogLimiter& limiter, LogLevel level, absl::string_view message,
                std::initializer_list<LogField> fields) {
  if (!IsLogged(level)) return;
  const std::optional<uint64_t> left_out =
      limiter.Admit(std::chrono::steady_clock::now());
  if (!left_out.has_value()) {
    left_out_by_limiters.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  std::vector<LogField> all(fields);
  const std::string count = absl::StrCat(*left_out);
  if (*left_out > 0) all.emplace_back("left_out", count);
  WriteLine(Format(level, message, all));
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

void SetLogFormat(LogFormat format) {
  log_format.store(format, std::memory_order_relaxed);
}

}  // namespace steadystate
