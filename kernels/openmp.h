#ifndef STEADYSTATE_KERNELS_OPENMP_H_
#define STEADYSTATE_KERNELS_OPENMP_H_

// The two functions of OpenMP's interface that are used here to tell oneDNN
// how many threads it has. Declared by hand: they must come from the runtime
// that oneDNN is linked with, GCC's, and not every compiler has that one's
// omp.h.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
}

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

#endif  // STEADYSTATE_KERNELS_OPENMP_H_
