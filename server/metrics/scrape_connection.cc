#include "server/metrics/scrape_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "server/metrics/scrape_answer.h"

namespace steadystate {
namespace {

// Most reads of one turn, so that no connection holds up the others.
constexpr int kReadsPerTurn = 4;

bool WouldWait() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

short ScrapeConnection::events() const {
  return asked_ && sent_ < answer_.size() ? POLLOUT : POLLIN;
}

bool ScrapeConnection::Continue(const std::function<std::string()>& page) {
  if (!asked_ && !Read(page)) return false;
  if (!asked_) return true;
  if (sent_ < answer_.size() && !Write()) return false;
  return sent_ < answer_.size() || Discard();
}

// False if the peer has gone before it asked.
bool ScrapeConnection::Read(const std::function<std::string()>& page) {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kReadsPerTurn && !asked_; ++i) {
    const ssize_t count = recv(fd(), buffer.data(), buffer.size(), 0);
    if (count < 0) return WouldWait();
    if (count == 0) return false;
    received_.append(buffer.data(), static_cast<size_t>(count));
    std::optional<std::string> answer = AnswerScrape(received_, page);
    if (!answer.has_value()) continue;
    asked_ = true;
    answer_ = *std::move(answer);
    received_ = std::string();
  }
  return true;
}

bool ScrapeConnection::Write() {
  while (sent_ < answer_.size()) {
    const ssize_t count = send(fd(), answer_.data() + sent_,
                               answer_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0) return WouldWait();
    sent_ += static_cast<size_t>(count);
  }
  shutdown(fd(), SHUT_WR);
  return true;
}

// Closing with bytes unread would reset the connection, and with it the answer
// that is still on its way: so what comes is read until the peer has closed.
bool ScrapeConnection::Discard() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t count = recv(fd(), buffer.data(), buffer.size(), 0);
    if (count < 0) return WouldWait();
    if (count == 0) return false;
  }
  return true;
}

}  // namespace steadystate
