#include "server/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "server/base/logging.h"
#include "server/base/mutex.h"

namespace steadystate {
namespace {

// Where standard error is read, it takes the last line long before.
constexpr std::chrono::milliseconds kFlushTime{100};

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

void StartStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
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
      FlushLog(kFlushTime);
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
