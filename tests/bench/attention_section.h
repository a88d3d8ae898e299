#ifndef STEADYSTATE_TESTS_BENCH_ATTENTION_SECTION_H_
#define STEADYSTATE_TESTS_BENCH_ATTENTION_SECTION_H_

#include <cstddef>
#include <vector>

#include "tests/bench/command.h"
#include "tests/bench/report.h"

namespace steadystate::bench {

// A token's softmax attention over bf16 caches of several sessions, by teams of
// so many threads, every session's all heads at once and head after head, in
// turns with a loop that only reads as many bytes side by side.
Section AttentionSection(const std::vector<size_t>& teams,
                         const RunOptions& run);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_ATTENTION_SECTION_H_
