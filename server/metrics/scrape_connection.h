#ifndef STEADYSTATE_SERVER_METRICS_SCRAPE_CONNECTION_H_
#define STEADYSTATE_SERVER_METRICS_SCRAPE_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "server/base/descriptor.h"

namespace steadystate {

// One HTTP connection: a request is read, answered, and the connection ends.
// Never waits. Thread-compatible.
class ScrapeConnection {
 public:
  using Clock = std::chrono::steady_clock;

  // Owns `socket`, which is non-blocking, and lives until `deadline` at most.
  ScrapeConnection(Descriptor socket, Clock::time_point deadline)
      : socket_(std::move(socket)), deadline_(deadline) {}

  int fd() const { return socket_.get(); }
  Clock::time_point deadline() const { return deadline_; }
  // Whether the whole request has come.
  bool asked() const { return asked_; }
  // The events to poll for.
  short events() const;

  // Goes on as far as it can without waiting. False once the connection is at
  // its end. `page` is what is served.
  bool Continue(const std::function<std::string()>& page);

 private:
  bool Read(const std::function<std::string()>& page);
  bool Write();
  bool Discard();

  Descriptor socket_;
  Clock::time_point deadline_;
  std::string received_;
  bool asked_ = false;
  std::string answer_;
  size_t sent_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_METRICS_SCRAPE_CONNECTION_H_
