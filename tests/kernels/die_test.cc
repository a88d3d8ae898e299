// Goal: a kernel that cannot go on ends the process and says why. Method: death
// tests.
#include "kernels/die.h"

#include <string>

#include "gtest/gtest.h"

namespace steadystate::die_test {
namespace {

TEST(DieDeathTest, SaysWhy) {
  EXPECT_DEATH(Die("the tile is torn"), "^steadystate: the tile is torn\n$");
}

// What a pipe takes at once, so that the end never waits for a reader.
TEST(DieDeathTest, SaysNoMoreThanAPipeTakes) {
  EXPECT_DEATH(Die(std::string(512, 'a') + "b"), "steadystate: a{512}\n$");
}

}  // namespace
}  // namespace steadystate::die_test
