#ifndef STEADYSTATE_TESTS_TESTING_ALLOCATION_COUNTER_H_
#define STEADYSTATE_TESTS_TESTING_ALLOCATION_COUNTER_H_

#include <cstdint>

namespace steadystate {

// How often operator new has been called in this program, on any thread, but
// for the calls that oneDNN makes inside of its own and that nobody can spare
// it. To use it replaces operator new for the whole program. Thread-safe.
uint64_t CountAllocations();

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_ALLOCATION_COUNTER_H_
