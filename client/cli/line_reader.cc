#include "client/cli/line_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

namespace steadystate::client {

LineReader::LineReader(int descriptor, size_t max_bytes)
    : descriptor_(descriptor),
      max_bytes_(max_bytes),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

LineReader::~LineReader() {
  if (wake_ >= 0) close(wake_);
}

void LineReader::Wake() {
  const uint64_t one = 1;
  // Fails only where it has been woken already.
  static_cast<void>(!write(wake_, &one, sizeof(one)));
}

bool LineReader::TakeLine(std::string& line, Event& event) {
  const size_t end = read_.find('\n');
  if (end == std::string::npos && read_.size() > max_bytes_) {
    read_.clear();
    dropping_ = true;
  }
  const bool last =
      end == std::string::npos && ended_ && (dropping_ || !read_.empty());
  if (end == std::string::npos && !last) return false;
  line = read_.substr(0, end);
  read_.erase(0, last ? end : end + 1);
  const bool too_long = std::exchange(dropping_, false);
  event = too_long || line.size() > max_bytes_ ? Event::kTooLong : Event::kLine;
  return true;
}

LineReader::Event LineReader::Next(std::string& line) {
  Event event = Event::kEnd;
  std::array<char, 4096> buffer;
  while (!TakeLine(line, event)) {
    if (ended_) return Event::kEnd;
    // A negative descriptor is not looked at.
    std::array<pollfd, 2> waits{{{descriptor_, POLLIN, 0}, {wake_, POLLIN, 0}}};
    if (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0) {
      if (errno == EINTR) continue;
      ended_ = true;
      continue;
    }
    uint64_t woken = 0;
    if (waits[1].revents != 0 &&
        read(wake_, &woken, sizeof(woken)) == sizeof(woken)) {
      return Event::kWoken;
    }
    if (waits[0].revents == 0) continue;
    const ssize_t count = read(descriptor_, buffer.data(), buffer.size());
    if (count > 0) {
      read_.append(buffer.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      ended_ = true;
    }
  }
  return event;
}

}  // namespace steadystate::client
