#ifndef STEADYSTATE_TESTS_BENCH_NUMBER_LIST_H_
#define STEADYSTATE_TESTS_BENCH_NUMBER_LIST_H_

#include <cstddef>
#include <vector>

#include "client/options/options.h"

namespace steadystate::bench {

// Reads "1,8,32" into a list, which is replaced. Each number is in [least,
// most]. The list outlives the target.
client::OptionTarget NumberList(std::vector<size_t>* list, size_t least,
                                size_t most);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_NUMBER_LIST_H_
