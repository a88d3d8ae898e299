#ifndef STEADYSTATE_CLIENT_CLI_LOAD_FIGURES_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_FIGURES_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/load/load.h"

namespace steadystate::client {

// What the forms of a report have in common: for people, programs and browsers.

// Where lines of a text begin, behind the names of its sections.
inline constexpr size_t kIndent = 12;

struct Quantile {
  const char* name;
  double value;
};
inline constexpr std::array<Quantile, 4> kQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}};

// One latency of a report. Points into the result.
struct Latency {
  const char* name;   // "inter_token"
  const char* label;  // "inter-token"
  const Histogram* histogram;
};

// In the order in which people read them. `result` outlives the answer.
std::vector<Latency> Latencies(const LoadResult& result);

double Seconds(std::chrono::nanoseconds duration);

// "StreamStep" or "Generate".
const char* RpcName(LoadRpc rpc);

// "poisson", "constant" or "trace"; "" in a closed loop.
const char* ArrivalsName(const LoadOptions& options);

// "ephemeral", or the sessions' durability, such as "log".
std::string DurabilityName(const LoadOptions& options);

// What requests ask for: "16 prompt and 32 generated tokens a request".
std::string DescribeRequests(const LoadResult& result);

// How they come: "open loop of 20 requests/s (Poisson)".
std::string DescribeLoop(const LoadOptions& options);

// What carries them: "64 sessions over 4 StreamStep streams, 2 connections".
std::string DescribeSessions(const LoadOptions& options);

// "98.7 % of 1,234 requests within ttft:200ms, 99 % wanted: missed".
// REQUIRES: there is an objective.
std::string DescribeSlo(const LoadResult& result);

// A duration in three digits and a unit: "12.3 us", "4.56 ms", "7.89 s".
std::string FormatLatency(std::chrono::nanoseconds duration);

// A number with its thousands apart: "1,234,567".
std::string FormatCount(uint64_t count);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_FIGURES_H_
