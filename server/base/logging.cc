#include "server/base/logging.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace steadystate {
namespace {

std::atomic<LogLevel> min_level{LogLevel::kInfo};

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

}  // namespace

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  if (level < min_level.load(std::memory_order_relaxed)) return;
  std::string line = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                      absl::UTCTimeZone());
  absl::StrAppend(&line, " ", LevelName(level), " ", message);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    if (NeedsQuotes(field.value)) {
      absl::StrAppend(&line, "\"", absl::CEscape(field.value), "\"");
    } else {
      absl::StrAppend(&line, field.value);
    }
  }
  line.push_back('\n');
  // Nothing sensible can be done when standard error is gone.
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line.data(), line.size());
}

void SetMinLogLevel(LogLevel level) {
  min_level.store(level, std::memory_order_relaxed);
}

}  // namespace steadystate
