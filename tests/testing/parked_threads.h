#ifndef STEADYSTATE_TESTS_TESTING_PARKED_THREADS_H_
#define STEADYSTATE_TESTS_TESTING_PARKED_THREADS_H_

#include <atomic>
#include <cstdint>
#include <future>

namespace steadystate {

// Parks the server's threads, each for up to 200 us every fourth time that it
// comes to a MayPark, while it exists. One at a time, or a ThreadHold.
class Parking {
 public:
  Parking();
  ~Parking();
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;

  // How often a thread was parked, by all that ever existed.
  static uint64_t count();
};

// Holds the server's threads that come to one MayPark until it is released.
class ThreadHold {
 public:
  // `place`: a literal, as MayPark names it.
  explicit ThreadHold(const char* place);
  ~ThreadHold();
  ThreadHold(const ThreadHold&) = delete;
  ThreadHold& operator=(const ThreadHold&) = delete;

  void WaitUntilHeld() const;
  // Who comes later is not held, but counted.
  void Release();
  // How many came there while this exists.
  int count() const;

 private:
  std::promise<void> promise_;
  bool released_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_PARKED_THREADS_H_
