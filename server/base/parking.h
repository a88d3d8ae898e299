#ifndef STEADYSTATE_SERVER_BASE_PARKING_H_
#define STEADYSTATE_SERVER_BASE_PARKING_H_

#include <atomic>

namespace steadystate {

// What a test does to a thread at a place where others may overtake it: holds
// it up for a while. `place` is a literal that names the place.
using ParkingHook = void (*)(const char* place);

inline std::atomic<ParkingHook> parking_hook = nullptr;

// Stands where a thread has let go of what kept others from ending the object
// that it works for: between a lock and the next step, before and after a call
// into gRPC. Any thread can be held up there for as long as the system likes,
// which happens once in a million times; a test sets parking_hook and makes it
// happen each time. Elsewhere this is one load.
inline void MayPark(const char* place) {
  const ParkingHook hook = parking_hook.load(std::memory_order_acquire);
  if (hook != nullptr) [[unlikely]] {
    hook(place);
  }
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_PARKING_H_
