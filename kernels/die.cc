#include "kernels/die.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"

namespace steadystate {

void Die(absl::string_view why) {
  // A pipe that poll finds room in takes this much without waiting.
  constexpr size_t kMost = 512;
  constexpr int kPatienceMs = 1000;
  const std::string line =
      absl::StrCat("steadystate: ", why.substr(0, kMost), "\n");
  pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&room, 1, kPatienceMs) == 1) {
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, line.data(), line.size());
  }
  std::abort();
}

}  // namespace steadystate
