#ifndef STEADYSTATE_SERVER_BASE_LOGGING_H_
#define STEADYSTATE_SERVER_BASE_LOGGING_H_

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"

namespace steadystate {

// Bounds how many lines one source may log: kLines in each span of kSpan that
// begins with its first line. Thread-safe.
class LogLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr int kLines = 10;
  static constexpr std::chrono::seconds kSpan{10};

  // For one more line at `now`: nothing if it is to be left out, else how many
  // were left out since the last that was not.
  std::optional<uint64_t> Admit(Time now);

 private:
  Mutex mutex_;
  std::optional<Time> start_ ABSL_GUARDED_BY(mutex_);
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// How lines look: see Log.
enum class LogFormat : uint8_t { kText, kJson };

// A key and a value of a log line. Values with blanks or quotes are quoted.
struct LogField {
  LogField(absl::string_view key_in, const absl::AlphaNum& value_in)
      : key(key_in), value(value_in.Piece()) {}
  absl::string_view key;
  absl::string_view value;
};

// Writes one line to standard error:
//   2026-01-31T12:00:00.123Z INFO model loaded path=deploy/models/demo layers=5
// or, as JSON, one object with the members time, level, message and the fields,
// all of them strings:
//   {"time":"2026-01-31T12:00:00.123Z","level":"INFO","message":"model loaded",
//    "path":"deploy/models/demo","layers":"5"}
// in a single write, so lines of several threads never mix; what a line has
// beyond 4 KiB is left out. Lines below the minimum level are dropped. Never
// writes to standard output, which belongs to the program's results.
// Thread-safe. Waits for standard error unless StartLogThread has been called.
void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields = {});

inline void LogInfo(absl::string_view message,
                    std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(absl::string_view message,
                       std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(absl::string_view message,
                     std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// Log for lines that clients can cause as often as they choose: only
// what `limiter` admits, with left_out=N where N lines before it were not.
void LogLimited(LogLimiter& limiter, LogLevel level, absl::string_view message,
                std::initializer_list<LogField> fields = {});

// Writes a text of one or more lines, its last line end included, as it is and
// whatever the minimum level. Otherwise like Log.
void LogPlain(absl::string_view text);

// From now on a thread of its own writes: logging never waits. 256 KiB of lines
// wait for the reader of standard error, more are dropped, which a line says as
// soon as there is room. Call once, before other threads log.
void StartLogThread();

// Waits for what was logged so far to be written, but no longer than `timeout`:
// before the process ends. May be called in a signal handler.
void FlushLog(std::chrono::milliseconds timeout);

// Lines that were left out or dropped since the start. Thread-safe.
uint64_t DroppedLogLines();

// The lowest level that is written; kInfo at start. Thread-safe.
void SetMinLogLevel(LogLevel level);
// Is that level written? For lines whose making takes time. Thread-safe.
bool IsLogged(LogLevel level);
// kText at start. LogPlain's texts are as they are in both. Thread-safe.
void SetLogFormat(LogFormat format);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LOGGING_H_
