#include "tests/bench/bandwidth.h"

#include <algorithm>

#include "tests/bench/huge_floats.h"
#include "tests/bench/memory_loops.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

constexpr int kTrials = 3;

}  // namespace

MemoryProbe::MemoryProbe(float* x, size_t floats, ThreadPool& pool)
    : x_(x), floats_(floats), pool_(pool) {
  double plain = 0;
  double past = 0;
  for (int i = 0; i < kTrials; ++i) {
    plain = std::max(plain, ReadWriteWith(&ReadWriteLoop));
    past = std::max(past, ReadWriteWith(&ReadStreamLoop));
  }
  past_caches_ = past > plain;
}

double MemoryProbe::Read() {
  const size_t part = floats_ / pool_.size();
  const double seconds = TimeOnce([&] {
    pool_.ParallelFor(pool_.size(), [&](size_t i, size_t) {
      // A store, so that the loop is not left out.
      volatile float sum = ReadLoop(part, x_ + i * part);
      static_cast<void>(sum);
    });
  });
  return static_cast<double>(floats_ * sizeof(float)) / seconds;
}

double MemoryProbe::ReadWrite() {
  return ReadWriteWith(past_caches_ ? &ReadStreamLoop : &ReadWriteLoop);
}

double MemoryProbe::ReadWriteWith(void (*loop)(size_t n, float factor,
                                               float* x)) {
  const size_t part = floats_ / pool_.size();
  const double seconds = TimeOnce([&] {
    pool_.ParallelFor(pool_.size(), [&](size_t i, size_t) {
      loop(part, 1.0f, x_ + i * part);
    });
  });
  return static_cast<double>(2 * floats_ * sizeof(float)) / seconds;
}

Bandwidth MeasureBandwidth(size_t threads, size_t bytes, size_t repetitions) {
  ThreadPool pool(threads);
  const size_t step = 256 * threads;
  const size_t floats =
      std::max(bytes / sizeof(float) / step, size_t{1}) * step;
  const HugeFloats memory(floats, 1.0f);
  MemoryProbe probe(memory.data(), floats, pool);
  Bandwidth result;
  for (size_t i = 0; i < repetitions; ++i) {
    result.read.Add(probe.Read());
    result.read_write.Add(probe.ReadWrite());
  }
  return result;
}

}  // namespace steadystate::bench
