#include "server/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <thread>

#include "server/base/logging.h"
#include "server/base/mutex.h"

namespace steadystate {
namespace {

// Where standard error is read, it takes the last line long before.
constexpr std::chrono::milliseconds kSignalFlushTime{100};

// Runs before the constructors of the libraries that the program is linked
// with, which take longer than all else before main. No function of a library
// is called, since those that sanitizers put in their place are not ready.
__attribute__((no_sanitize("address"), no_sanitize("thread"),
               no_sanitize("undefined"))) void
HoldStopSignals() {
  // As the kernel has it: a bit for each signal, from 1 on.
  const uint64_t signals =
      (uint64_t{1} << (SIGTERM - 1)) | (uint64_t{1} << (SIGINT - 1));
  syscall(SYS_rt_sigprocmask, SIG_BLOCK, &signals, nullptr, sizeof(signals));
}

__attribute__((section(".preinit_array"),
               used)) void (*hold_stop_signals)() = &HoldStopSignals;

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Never destroyed: the waiting thread outlives main.
struct Stop {
  Mutex mutex;
  CondVar requested_changed;
  bool kept ABSL_GUARDED_BY(mutex) = false;
  bool requested ABSL_GUARDED_BY(mutex) = false;
};

Stop& TheStop() {
  static Stop* const stop = new Stop;
  return *stop;
}

// The code to end the process with at once, or nothing if it is to end in
// order.
std::optional<int> NoteSignal(Stop& stop, int number) {
  const MutexLock lock(stop.mutex);
  if (!stop.kept) return EXIT_SUCCESS;
  if (stop.requested) return 128 + number;
  stop.requested = true;
  stop.requested_changed.SignalAll();
  return std::nullopt;
}

}  // namespace

void LetStopSignalsThrough() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void StartStopSignals() {
  const sigset_t signals = StopSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Stop& stop = TheStop();
  std::thread([signals, &stop] {
    while (true) {
      int number = 0;
      if (sigwait(&signals, &number) != 0) continue;
      // First, since nothing that comes after may keep the process from ending.
      const std::optional<int> code = NoteSignal(stop, number);
      LogInfo("signal received", {{"signal", strsignal(number)}});
      if (!code.has_value()) continue;
      FlushLog(kSignalFlushTime);
      _exit(*code);
    }
  }).detach();
}

void KeepFirstStopSignal() {
  Stop& stop = TheStop();
  const MutexLock lock(stop.mutex);
  stop.kept = true;
}

void WaitForStopSignal() {
  Stop& stop = TheStop();
  const MutexLock lock(stop.mutex);
  while (!stop.requested) stop.requested_changed.Wait(stop.mutex);
}

}  // namespace steadystate
