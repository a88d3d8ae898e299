#ifndef STEADYSTATE_CLIENT_CLI_LOAD_HTML_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_HTML_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/load_page.h"
#include "client/cli/load_plot.h"
#include "client/load/load.h"

namespace steadystate::client {

// The report of a run as a page: one file, without scripts and without anything
// from elsewhere, for light and dark screens and for paper.
std::string FormatLoadHtml(const LoadResult& result);

// Its parts that a page of several runs has as well.

// A duration in three digits and a unit.
std::string TimeText(double seconds);

// The model in a line.
std::string ModelText(const v1::Model& model);

// A limit of an objective for a plot; nothing if there is none.
std::vector<PlotGuide> Limit(const std::optional<absl::Duration>& limit,
                             const char* name);

// The figures that matter most.
std::vector<HtmlPage::Tile> RunTiles(const LoadResult& result);

// What was run, and what it came to beside latencies.
void AddRunFacts(HtmlPage& page, const LoadResult& result);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_HTML_H_
