#ifndef STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_

#include <chrono>
#include <string>

#include "client/cli/output.h"
#include "client/load/load.h"

namespace steadystate::client {

// The name and version of the JSON report: a change that could break a reader
// brings another one.
inline constexpr char kLoadReportSchema[] = "steadystate.load/1";

// For people, in 80 columns.
std::string FormatLoadText(const LoadResult& result);

// For programs: everything, times in seconds.
Json FormatLoadJson(const LoadResult& result);

// For spreadsheets: a line of names and a line of values, to be collected from
// many runs. Errors are "REASON=3 OTHER=1".
std::string FormatLoadCsv(const LoadResult& result);

// A duration in three digits and a unit: "12.3 us", "4.56 ms", "7.89 s".
std::string FormatLatency(std::chrono::nanoseconds duration);

// A number with its thousands apart: "1,234,567".
std::string FormatCount(uint64_t count);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_
