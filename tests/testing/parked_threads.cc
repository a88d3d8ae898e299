#include "tests/testing/parked_threads.h"

#include <chrono>
#include <random>
#include <thread>

#include "absl/strings/string_view.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"

namespace steadystate {
namespace {

std::atomic<uint64_t> parked = 0;

// The other threads go ahead. Bounded, since what they wait for may be this
// thread.
void LetOthersGoAhead(const char* /*place*/) {
  thread_local std::minstd_rand random(
      static_cast<uint32_t>(parked.fetch_add(1) + 1));
  if (random() % 4 != 0) return;
  ++parked;
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::microseconds(random() % 200);
  do {
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < end);
}

// Of the ThreadHold that exists. A thread that is held keeps what it waits for.
Mutex hold_mutex;
absl::string_view held_place;
std::shared_future<void> until;
std::atomic<int> held = 0;

void WaitForRelease(const char* place) {
  std::shared_future<void> released;
  {
    const MutexLock lock(hold_mutex);
    if (absl::string_view(place) != held_place) return;
    released = until;
    ++held;
  }
  released.wait();
}

}  // namespace

Parking::Parking() { parking_hook = &LetOthersGoAhead; }
Parking::~Parking() { parking_hook = nullptr; }
uint64_t Parking::count() { return parked; }

ThreadHold::ThreadHold(const char* place) {
  {
    const MutexLock lock(hold_mutex);
    held_place = place;
    until = promise_.get_future().share();
    held = 0;
  }
  parking_hook = &WaitForRelease;
}

ThreadHold::~ThreadHold() {
  parking_hook = nullptr;
  Release();
}

void ThreadHold::WaitUntilHeld() const {
  while (held == 0) std::this_thread::yield();
}

void ThreadHold::Release() {
  if (!released_) promise_.set_value();
  released_ = true;
}

int ThreadHold::count() const { return held; }

}  // namespace steadystate
