#ifndef STEADYSTATE_CLIENT_CLI_LOAD_TEXT_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_TEXT_H_

#include <string>

#include "client/load/load.h"
#include "client/load/sweep.h"

namespace steadystate::client {

// The report of a run for people, in 80 columns.
std::string FormatLoadText(const LoadResult& result);

// The same of several runs: a line for each point.
std::string FormatSweepText(const SweepResult& result);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_TEXT_H_
