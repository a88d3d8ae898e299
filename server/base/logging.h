#ifndef STEADYSTATE_SERVER_BASE_LOGGING_H_
#define STEADYSTATE_SERVER_BASE_LOGGING_H_

#include <cstdint>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace steadystate {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// A key and a value of a log line. Values with blanks or quotes are quoted.
struct LogField {
  LogField(absl::string_view key_in, const absl::AlphaNum& value_in)
      : key(key_in), value(value_in.Piece()) {}
  absl::string_view key;
  absl::string_view value;
};

// Writes one line to standard error:
//   2026-01-31T12:00:00.123Z INFO model loaded path=deploy/models/demo layers=5
// in a single write, so lines of several threads never mix. Lines below the
// minimum level are dropped. Never writes to standard output, which belongs to
// the program's results. Thread-safe.
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

// The lowest level that is written; kInfo at start. Thread-safe.
void SetMinLogLevel(LogLevel level);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LOGGING_H_
