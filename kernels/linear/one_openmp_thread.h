#ifndef STEADYSTATE_KERNELS_LINEAR_ONE_OPENMP_THREAD_H_
#define STEADYSTATE_KERNELS_LINEAR_ONE_OPENMP_THREAD_H_

#include "kernels/openmp.h"

namespace steadystate {

// While it lives, OpenMP gives this thread a team of one. oneDNN bakes the size
// of the team into each primitive that it makes.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOpenMpThread() { omp_set_num_threads(before_); }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  const int before_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_ONE_OPENMP_THREAD_H_
