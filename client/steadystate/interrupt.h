#ifndef STEADYSTATE_CLIENT_STEADYSTATE_INTERRUPT_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_INTERRUPT_H_

#include <atomic>
#include <thread>

#include "client/canceller.h"

namespace steadystate::client {

// While it exists, SIGINT and SIGTERM cancel the calls of a canceller instead
// of ending the process, so that a command can clean up; a second one ends the
// process at once with status 130.
//
// REQUIRES: made before the process starts other threads, and the only one.
class Interrupt {
 public:
  // `canceller` must outlive this object.
  explicit Interrupt(Canceller& canceller);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  void Watch();

  Canceller& canceller_;
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_INTERRUPT_H_
