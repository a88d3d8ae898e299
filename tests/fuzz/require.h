#ifndef STEADYSTATE_TESTS_FUZZ_REQUIRE_H_
#define STEADYSTATE_TESTS_FUZZ_REQUIRE_H_

#include <cstdio>
#include <cstdlib>

namespace steadystate {

// Ends the program where `holds` is false: libFuzzer then keeps the input.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_FUZZ_REQUIRE_H_
