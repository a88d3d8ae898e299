// Preloaded into a program, sets its time of day: adds the seconds, an int64,
// that the file named by STEADYSTATE_CLOCK_FILE holds at the moment. Steady
// time stays what it is, and so does what the kernel waits by.
#include <dlfcn.h>
#include <fcntl.h>
#include <grpc/support/time.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

using Offset = std::atomic<int64_t>;

const Offset* MapOffset() {
  const char* const path = getenv("STEADYSTATE_CLOCK_FILE");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const mapped =
      mmap(nullptr, sizeof(Offset), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return mapped == MAP_FAILED ? nullptr : static_cast<const Offset*>(mapped);
}

}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  using Function = int (*)(clockid_t, timespec*);
  static const auto real =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "clock_gettime"));
  static const Offset* const offset = MapOffset();
  const int result = real(id, time);
  if (result == 0 && id == CLOCK_REALTIME && offset != nullptr) {
    time->tv_sec += offset->load(std::memory_order_relaxed);
  }
  return result;
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

// A polling thread of gRPC 1.51 that has been idle for a second sleeps a tenth
// of one: it adds that to the time of day, and this function of gRPC's
// subtracts the time of day again. Where the clock is set back in the
// microsecond between, the thread sleeps for hours, and the server's end waits
// for it. A step of the machine's clock hardly ever meets that microsecond; the
// test's follow the end of idle seconds and do now and then. So here no sleep
// is longer than asked.
extern "C" void gpr_sleep_until(gpr_timespec until) {
  constexpr gpr_timespec kAsked = {0, 100'000'000, GPR_TIMESPAN};
  const gpr_timespec left = gpr_time_sub(until, gpr_now(until.clock_type));
  const gpr_timespec sleep = gpr_time_min(left, kAsked);
  const timespec time = {sleep.tv_sec, sleep.tv_nsec};
  if (time.tv_sec >= 0) nanosleep(&time, nullptr);
}
