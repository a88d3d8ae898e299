#include "client/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace steadystate::client {
namespace {

constexpr int kExitInterrupted = 130;

// SIGHUP, too, of a terminal that is closed, unless `nohup` has it ignored:
// one that is ignored would be taken all the same once it is blocked.
sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 &&
      hangup.sa_handler != SIG_IGN) {
    sigaddset(&signals, SIGHUP);
  }
  return signals;
}

}  // namespace

Interrupt::Interrupt(Handler handler)
    : signals_(Signals()), handler_(std::move(handler)) {
  // Blocked here, and so in every thread that starts from now on: the watcher
  // is the only one that takes them.
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  watcher_ = std::thread(&Interrupt::Watch, this);
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(watcher_.native_handle(), SIGTERM);
  watcher_.join();
}

Interrupt::Handler Interrupt::Exchange(Handler handler) {
  const MutexLock lock(mutex_);
  return std::exchange(handler_, std::move(handler));
}

void Interrupt::Watch() {
  int signal = 0;
  while (sigwait(&signals_, &signal) == 0 && !stopping_) {
    const MutexLock lock(mutex_);
    handler_(signal);
  }
}

Interrupt::Handler CancelCalls(Canceller& canceller) {
  return [&canceller](int) {
    if (canceller.cancelled()) _exit(kExitInterrupted);
    canceller.Cancel();
  };
}

}  // namespace steadystate::client
