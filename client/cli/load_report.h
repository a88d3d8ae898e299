#ifndef STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_

#include <string>

#include "client/cli/output.h"
#include "client/load/load.h"
#include "client/load/sweep.h"

namespace steadystate::client {

// The names and versions of the JSON reports: a change that could break a
// reader brings another one.
inline constexpr char kLoadReportSchema[] = "steadystate.load/1";
inline constexpr char kLoadSweepSchema[] = "steadystate.load_sweep/1";

// For programs: everything, times in seconds.
Json FormatLoadJson(const LoadResult& result);

// The same of several runs: each point with its runs, and what they come to.
Json FormatSweepJson(const SweepResult& result);

// For spreadsheets: a line of names and a line of values, to be collected from
// many runs. Errors are "REASON=3 OTHER=1".
std::string FormatLoadCsv(const LoadResult& result);

// The same of several runs: a line of names, and one of values for each run.
// Empty if there is none.
std::string FormatSweepCsv(const SweepResult& result);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_REPORT_H_
