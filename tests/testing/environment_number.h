#ifndef STEADYSTATE_TESTS_TESTING_ENVIRONMENT_NUMBER_H_
#define STEADYSTATE_TESTS_TESTING_ENVIRONMENT_NUMBER_H_

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace steadystate {

// What the environment variable says, by which a trial is made longer, or
// `otherwise` where there is none. Fails the test if it is no number.
inline uint64_t NumberFromEnvironment(const char* variable,
                                      uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return otherwise;
  uint64_t number = otherwise;
  EXPECT_TRUE(absl::SimpleAtoi(text, &number)) << variable << "=" << text;
  return number;
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_ENVIRONMENT_NUMBER_H_
