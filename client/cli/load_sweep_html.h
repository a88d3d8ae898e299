#ifndef STEADYSTATE_CLIENT_CLI_LOAD_SWEEP_HTML_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_SWEEP_HTML_H_

#include <string>

#include "client/load/sweep.h"

namespace steadystate::client {

// The report of several runs as a page, as FormatLoadHtml makes it of one.
std::string FormatSweepHtml(const SweepResult& result);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_SWEEP_HTML_H_
