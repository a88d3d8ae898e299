#include "tests/bench/memory_loops.h"

#include "hwy/cache_control.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/memory_loops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate::bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// At most 64 floats a vector, so that four of them divide 256.
using Floats = hn::CappedTag<float, 64>;

float ReadLoopOfTarget(size_t n, const float* x) {
  const Floats d;
  const size_t N = hn::Lanes(d);
  auto a = hn::Zero(d);
  auto b = a;
  auto c = a;
  auto e = a;
  for (size_t i = 0; i < n; i += 4 * N) {
    a = hn::Add(a, hn::Load(d, x + i));
    b = hn::Add(b, hn::Load(d, x + i + N));
    c = hn::Add(c, hn::Load(d, x + i + 2 * N));
    e = hn::Add(e, hn::Load(d, x + i + 3 * N));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

void ReadWriteLoopOfTarget(size_t n, float factor, float* x) {
  const Floats d;
  const size_t N = hn::Lanes(d);
  const auto by = hn::Set(d, factor);
  for (size_t i = 0; i < n; i += N) {
    hn::Store(hn::Mul(by, hn::Load(d, x + i)), d, x + i);
  }
}

void ReadStreamLoopOfTarget(size_t n, float factor, float* x) {
  const Floats d;
  const size_t N = hn::Lanes(d);
  const auto by = hn::Set(d, factor);
  for (size_t i = 0; i < n; i += N) {
    hn::Stream(hn::Mul(by, hn::Load(d, x + i)), d, x + i);
  }
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate::bench {
namespace {

HWY_EXPORT(ReadLoopOfTarget);
HWY_EXPORT(ReadWriteLoopOfTarget);
HWY_EXPORT(ReadStreamLoopOfTarget);

}  // namespace

float ReadLoop(size_t n, const float* x) {
  return HWY_DYNAMIC_DISPATCH(ReadLoopOfTarget)(n, x);
}

void ReadWriteLoop(size_t n, float factor, float* x) {
  HWY_DYNAMIC_DISPATCH(ReadWriteLoopOfTarget)(n, factor, x);
}

void ReadStreamLoop(size_t n, float factor, float* x) {
  HWY_DYNAMIC_DISPATCH(ReadStreamLoopOfTarget)(n, factor, x);
}

}  // namespace steadystate::bench
#endif  // HWY_ONCE
