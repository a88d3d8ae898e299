#ifndef STEADYSTATE_TESTS_BENCH_HUGE_FLOATS_H_
#define STEADYSTATE_TESTS_BENCH_HUGE_FLOATS_H_

#include <cstddef>

namespace steadystate::bench {

// Floats in huge pages where the system has them, as session states and weights
// lie. Touched when made. Ends the program if there is no memory.
class HugeFloats {
 public:
  HugeFloats(size_t count, float value);
  ~HugeFloats();
  HugeFloats(const HugeFloats&) = delete;
  HugeFloats& operator=(const HugeFloats&) = delete;

  float* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  float* data_;
  size_t size_;
};

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_HUGE_FLOATS_H_
