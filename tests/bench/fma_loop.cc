#include "tests/bench/fma_loop.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/fma_loop.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate::bench {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

double FmaLoopOfTarget(size_t rounds) {
  const hn::ScalableTag<float> d;
  // Converges to 1, so that nothing overflows or becomes denormal.
  const auto factor = hn::Set(d, 0.5f);
  const auto term = hn::Set(d, 0.5f);
  // As many sums as hide the latency of one, on every CPU that we know.
  auto a = hn::Zero(d);
  auto b = hn::Set(d, 0.1f);
  auto c = hn::Set(d, 0.2f);
  auto e = hn::Set(d, 0.3f);
  auto f = hn::Set(d, 0.4f);
  auto g = hn::Set(d, 0.6f);
  auto h = hn::Set(d, 0.7f);
  auto i = hn::Set(d, 0.8f);
  auto j = hn::Set(d, 0.9f);
  auto k = hn::Set(d, 1.0f);
  for (size_t round = 0; round < rounds; ++round) {
    a = hn::MulAdd(a, factor, term);
    b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term);
    e = hn::MulAdd(e, factor, term);
    f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term);
    j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
  }
  const auto abc = hn::Add(hn::Add(a, b), hn::Add(c, e));
  const auto fgh = hn::Add(hn::Add(f, g), hn::Add(h, i));
  const auto all = hn::Add(hn::Add(abc, fgh), hn::Add(j, k));
  // A store, so that the loop is not left out.
  volatile float sum = hn::GetLane(all);
  static_cast<void>(sum);
  constexpr size_t kSums = 10;
  return static_cast<double>(2 * kSums * rounds * hn::Lanes(d));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate::bench {
namespace {

HWY_EXPORT(FmaLoopOfTarget);

}  // namespace

double FmaLoop(size_t rounds) {
  return HWY_DYNAMIC_DISPATCH(FmaLoopOfTarget)(rounds);
}

}  // namespace steadystate::bench
#endif  // HWY_ONCE
