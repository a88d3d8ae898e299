#include "tests/bench/huge_floats.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace steadystate::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

HugeFloats::HugeFloats(size_t count, float value) : size_(count) {
  const size_t bytes =
      (count * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory = std::aligned_alloc(kHugePage, bytes);
  if (memory == nullptr) {
    std::fprintf(stderr, "no memory for %zu bytes\n", bytes);
    std::abort();
  }
  // Slower without, but no less right.
  static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  data_ = static_cast<float*>(memory);
  std::fill_n(data_, bytes / sizeof(float), value);
}

HugeFloats::~HugeFloats() { std::free(data_); }

}  // namespace steadystate::bench
