// The name follows the dispatched target.

#include "kernels/cpu_target.h"

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"

namespace steadystate::cpu_target_test {
namespace {

class CpuTargetTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(CpuTargetTest);

TEST_P(CpuTargetTest, NamesTheTargetThatRuns) {
  EXPECT_EQ(KernelTargetName(), hwy::TargetName(GetParam()));
}

}  // namespace
}  // namespace steadystate::cpu_target_test
