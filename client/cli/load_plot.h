#ifndef STEADYSTATE_CLIENT_CLI_LOAD_PLOT_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_PLOT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace steadystate::client {

// Text as it may stand in HTML, in elements and in quoted attributes, whatever
// it has in it.
std::string EscapeHtml(absl::string_view text);

// What an axis shows, which decides its ticks.
enum class AxisKind {
  kNumber,    // from 0, evenly
  kSeconds,   // durations, from 0, evenly
  kLogTime,   // durations, each decade as wide as any other
  kQuantile,  // shares below 1: each nine as wide as any other
};

// One line of a plot.
struct PlotSeries {
  struct Point {
    double x = 0;
    double y = 0;           // not finite: nothing is drawn, the line has a gap
    double spread = 0;      // drawn as a bar of y +- spread; 0: none
    bool doubtful = false;  // drawn hollow
  };

  std::string name;
  std::vector<Point> points;  // by rising x
  bool marks = false;         // a mark at each point, with its values
};

// A straight line across a plot, with its name.
struct PlotGuide {
  double value = 0;
  std::string name;
};

// A picture of some series. Everything is text of anybody's.
struct Plot {
  std::string title;
  std::string x_name;
  AxisKind x_kind = AxisKind::kNumber;
  AxisKind y_kind = AxisKind::kNumber;
  std::vector<PlotSeries> series =
      {};  // at most kPlotColours have a colour each
  std::vector<PlotGuide> horizontal = {};  // limits
  std::vector<PlotGuide> vertical = {};
  bool wide = false;  // as wide as two others
};
inline constexpr int kPlotColours = 4;

// The plot as an HTML figure with an SVG picture; empty if it has no finite
// point. Colours are the page's: classes c0 to c3, grid, guide.
std::string DrawPlot(const Plot& plot);

// The styles that DrawPlot wants of a page.
absl::string_view PlotStyles();

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_PLOT_H_
