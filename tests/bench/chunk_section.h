#ifndef STEADYSTATE_TESTS_BENCH_CHUNK_SECTION_H_
#define STEADYSTATE_TESTS_BENCH_CHUNK_SECTION_H_

#include <cstddef>
#include <vector>

#include "tests/bench/command.h"
#include "tests/bench/report.h"

namespace steadystate::bench {

// Each chunk kernel by teams of so many threads, every one with a head of its
// own in its cache, beside the flop that its registers could do.
Section ChunkSection(const std::vector<size_t>& teams, const RunOptions& run);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_CHUNK_SECTION_H_
