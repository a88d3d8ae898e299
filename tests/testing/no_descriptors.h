// A process without free descriptors.
#ifndef STEADYSTATE_TESTS_TESTING_NO_DESCRIPTORS_H_
#define STEADYSTATE_TESTS_TESTING_NO_DESCRIPTORS_H_

#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace steadystate {

// Leaves the process only the descriptors that are open, while this exists.
// What is expected is best checked afterwards: UndefinedBehaviorSanitizer takes
// descriptors where it looks at an object with virtual functions, as matchers
// are, and calls the object invalid where there are none.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    // Descriptors are numbered from the lowest that is free. Another thread may
    // have had a lower one for a moment, as accept() does before it finds that
    // nobody is there.
    rlimit none = before_;
    for (int lowest = dup(STDERR_FILENO); lowest >= 0;
         lowest = dup(STDERR_FILENO)) {
      EXPECT_EQ(close(lowest), 0);
      none.rlim_cur = static_cast<rlim_t>(lowest);
      EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    }
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_NO_DESCRIPTORS_H_
