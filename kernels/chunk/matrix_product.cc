#include "kernels/chunk/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/matrix_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/matrix_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

void MatrixProductOfTarget(const MatrixProductArgs& args) {
  MultiplyMatrices(args);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(MatrixProductOfTarget);

void MatrixProduct(const MatrixProductArgs& args) {
  HWY_DYNAMIC_DISPATCH(MatrixProductOfTarget)(args);
}

}  // namespace steadystate
#endif  // HWY_ONCE
