#include "server/base/line_writer.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/base/mutex.h"

namespace steadystate {
namespace {

// What a short line takes in the queue, whatever its length.
constexpr size_t kLineOverhead = 64;

size_t Cost(const std::string& line) { return line.size() + kLineOverhead; }

// False if the descriptor takes nothing any more.
bool WriteAll(int descriptor, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // Another process has made the shared descriptor non-blocking.
      pollfd room = {.fd = descriptor, .events = POLLOUT, .revents = 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct LineWriter::Queue {
  Queue(int descriptor_in, size_t max_bytes_in, Note note_in)
      : descriptor(descriptor_in), max_bytes(max_bytes_in), note(note_in) {}

  void Push(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    bytes += Cost(line);
    lines.push_back(std::move(line));
    unwritten.fetch_add(1, std::memory_order_relaxed);
    changed.SignalOne();
  }

  // Says how many lines are missing, where they are.
  void PushNote() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (unsaid == 0) return;
    Push(note(std::exchange(unsaid, 0)));
  }

  // The next line, or an empty one if none will come.
  std::string Next() {
    const MutexLock lock(mutex);
    while (lines.empty() && !closed) {
      changed.Wait(mutex);
    }
    if (lines.empty()) return "";
    std::string line = std::move(lines.front());
    lines.pop_front();
    bytes -= Cost(line);
    if (lines.empty()) PushNote();
    return line;
  }

  void Run() {
    for (std::string line = Next(); !line.empty(); line = Next()) {
      if (!WriteAll(descriptor, line)) {
        dropped.fetch_add(1, std::memory_order_relaxed);
      }
      unwritten.fetch_sub(1, std::memory_order_release);
    }
  }

  const int descriptor;
  const size_t max_bytes;
  const Note note;
  std::atomic<uint64_t> dropped{0};
  std::atomic<size_t> unwritten{0};  // waiting or being written

  Mutex mutex;
  CondVar changed;
  std::deque<std::string> lines ABSL_GUARDED_BY(mutex);
  size_t bytes ABSL_GUARDED_BY(mutex) = 0;
  uint64_t unsaid ABSL_GUARDED_BY(mutex) = 0;  // dropped, and no note yet
  bool closed ABSL_GUARDED_BY(mutex) = false;
};

LineWriter::LineWriter(int descriptor, size_t max_bytes, Note note)
    : queue_(std::make_shared<Queue>(descriptor, max_bytes, note)) {
  // Signals are for threads that know what to do with them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([queue = queue_] { queue->Run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LineWriter::~LineWriter() {
  const MutexLock lock(queue_->mutex);
  queue_->closed = true;
  queue_->changed.SignalOne();
}

void LineWriter::Write(std::string line) {
  if (line.empty()) return;
  Queue& queue = *queue_;
  const MutexLock lock(queue.mutex);
  if (queue.bytes + Cost(line) > queue.max_bytes) {
    queue.dropped.fetch_add(1, std::memory_order_relaxed);
    if (queue.note != nullptr) ++queue.unsaid;
    return;
  }
  queue.PushNote();
  queue.Push(std::move(line));
}

bool LineWriter::Flush(std::chrono::milliseconds timeout) const {
  // Locks nothing: the thread that a signal interrupts may hold the mutex.
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (queue_->unwritten.load(std::memory_order_acquire) != 0) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

uint64_t LineWriter::dropped() const {
  return queue_->dropped.load(std::memory_order_relaxed);
}

}  // namespace steadystate
