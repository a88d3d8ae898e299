#include "client/steadystate/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

namespace steadystate::client {
namespace {

constexpr int kExitInterrupted = 130;

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

Interrupt::Interrupt(Canceller& canceller) : canceller_(canceller) {
  // Blocked here, and so in every thread that starts from now on: the watcher
  // is the only one that takes them, outside any signal handler.
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::thread(&Interrupt::Watch, this);
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(watcher_.native_handle(), SIGTERM);
  watcher_.join();
}

void Interrupt::Watch() {
  const sigset_t signals = Signals();
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && !stopping_) {
    if (canceller_.cancelled()) _exit(kExitInterrupted);
    canceller_.Cancel();
  }
}

}  // namespace steadystate::client
