#include "kernels/chunk/block_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/block_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/block_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

void BlockProductOfTarget(const BlockProductArgs& args) {
  MultiplyBlocks(args);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(BlockProductOfTarget);

void BlockProduct(const BlockProductArgs& args) {
  HWY_DYNAMIC_DISPATCH(BlockProductOfTarget)(args);
}

}  // namespace steadystate
#endif  // HWY_ONCE
