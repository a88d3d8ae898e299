#include "client/cli/load_plot.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/load_figures.h"

namespace steadystate::client {
namespace {

// In units of the picture, which grows and shrinks with the page.
constexpr double kNarrow = 640;
constexpr double kWide = 1304;
constexpr double kHeight = 300;
constexpr double kLeft = 66;
constexpr double kRight = 14;
constexpr double kTop = 14;
constexpr double kBottom = 44;
constexpr double kMark = 3.5;
constexpr int kTicks = 5;  // about

std::string FormatSeconds(double seconds) {
  return seconds == 0 ? "0"
                      : FormatLatency(std::chrono::nanoseconds(
                            std::llround(seconds * 1e9)));
}

// The same of a tick, which has few digits.
std::string FormatTick(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 0.9995e-3) return absl::StrFormat("%g us", seconds * 1e6);
  if (seconds < 0.9995) return absl::StrFormat("%g ms", seconds * 1e3);
  return absl::StrFormat("%g s", seconds);
}

// One axis: from values to a place between 0 and 1, and what stands along it.
class Axis {
 public:
  explicit Axis(AxisKind kind) : kind_(kind) {}

  // Makes room for a value.
  void Include(double value) {
    if (!std::isfinite(value)) return;
    const double place = Scaled(value);
    low_ = std::min(low_, place);
    high_ = std::max(high_, place);
  }

  // Begins at 0 where that says something, and leaves some air.
  void Settle() {
    if (low_ > high_) low_ = high_ = 0;
    if (kind_ == AxisKind::kLogTime) {
      low_ = std::floor(low_ * 2 - 0.05) / 2;
      high_ = std::ceil(high_ * 2 + 0.05) / 2;
      return;
    }
    if (kind_ == AxisKind::kQuantile) return;
    low_ = std::min(low_, 0.0);
    if (high_ <= low_) high_ = low_ + 1;
  }
  void AddAir() {
    if (kind_ == AxisKind::kNumber || kind_ == AxisKind::kSeconds) {
      high_ += (high_ - low_) * 0.06;
    }
  }

  double Place(double value) const {
    if (high_ <= low_) return 0;
    return std::clamp((Scaled(value) - low_) / (high_ - low_), 0.0, 1.0);
  }

  std::vector<double> Ticks() const;

  // A value with all of its digits, or a tick with few.
  std::string Label(double value, bool tick) const {
    switch (kind_) {
      case AxisKind::kSeconds:
      case AxisKind::kLogTime:
        return tick ? FormatTick(value) : FormatSeconds(value);
      case AxisKind::kQuantile:
        return absl::StrFormat("p%g", value * 100);
      case AxisKind::kNumber:
        break;
    }
    if (value >= 1000) {
      return FormatCount(static_cast<uint64_t>(std::llround(value)));
    }
    return absl::StrFormat("%.4g", value);
  }

 private:
  double Scaled(double value) const {
    if (kind_ == AxisKind::kLogTime) {
      return std::log10(std::max(value, 1e-9));
    }
    if (kind_ == AxisKind::kQuantile) return -std::log10(1 - value);
    return value;
  }

  AxisKind kind_;
  double low_ = std::numeric_limits<double>::infinity();
  double high_ = -std::numeric_limits<double>::infinity();
};

std::vector<double> Axis::Ticks() const {
  std::vector<double> ticks;
  if (kind_ == AxisKind::kQuantile) {
    for (const double share : {0.5, 0.9, 0.99, 0.999, 0.9999}) {
      if (Scaled(share) <= high_ + 1e-9) ticks.push_back(share);
    }
    return ticks;
  }
  if (kind_ == AxisKind::kLogTime) {
    const bool few = high_ - low_ < 2.5;
    for (double decade = std::floor(low_); decade <= high_; ++decade) {
      for (const double step : {1.0, 2.0, 5.0}) {
        const double value = std::pow(10, decade) * step;
        const double place = Scaled(value);
        if ((step == 1 || few) && place >= low_ - 1e-9 &&
            place <= high_ + 1e-9) {
          ticks.push_back(value);
        }
      }
    }
    return ticks;
  }
  const double rough = (high_ - low_) / kTicks;
  const double unit = std::pow(10, std::floor(std::log10(rough)));
  const double share = rough / unit;
  const double step = unit * (share <= 1   ? 1
                              : share <= 2 ? 2
                              : share <= 5 ? 5
                                           : 10);
  for (int i = 0; low_ + step * i <= high_ + step * 1e-6; ++i) {
    ticks.push_back(step * i);
  }
  return ticks;
}

// Draws one plot.
class Drawing {
 public:
  explicit Drawing(const Plot& plot)
      : plot_(plot),
        width_(plot.wide ? kWide : kNarrow),
        x_(plot.x_kind),
        y_(plot.y_kind) {
    bool has_marks = false;
    for (const PlotSeries& series : plot.series) {
      has_marks = has_marks || series.marks;
      for (const PlotSeries::Point& point : series.points) {
        if (!std::isfinite(point.y)) continue;
        empty_ = false;
        x_.Include(point.x);
        y_.Include(point.y + point.spread);
        // Nothing that is shown can be below 0, whatever its spread.
        y_.Include(plot.y_kind == AxisKind::kLogTime
                       ? point.y
                       : std::max(point.y - point.spread, 0.0));
      }
    }
    for (const PlotGuide& guide : plot.horizontal) y_.Include(guide.value);
    x_.Settle();
    y_.Settle();
    y_.AddAir();
    if (has_marks) x_.AddAir();
  }

  bool empty() const { return empty_; }

  std::string Html() const {
    std::string html =
        absl::StrCat(plot_.wide ? "<figure class=\"wide-plot\">" : "<figure>",
                     "<figcaption>", EscapeHtml(plot_.title), "</figcaption>");
    AppendLegend(html);
    absl::StrAppendFormat(
        &html, "<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"%s\">",
        width_, kHeight, EscapeHtml(plot_.title));
    AppendAxes(html);
    AppendGuides(html);
    for (size_t i = 0; i < plot_.series.size(); ++i) {
      AppendSeries(html, plot_.series[i], Colour(i));
    }
    return html + "</svg></figure>\n";
  }

 private:
  static std::string Colour(size_t index) {
    return absl::StrCat("c", index % kPlotColours);
  }
  double X(double value) const {
    return kLeft + x_.Place(value) * (width_ - kLeft - kRight);
  }
  double Y(double value) const {
    return kHeight - kBottom - y_.Place(value) * (kHeight - kTop - kBottom);
  }

  void AppendLegend(std::string& html) const;
  void AppendAxes(std::string& html) const;
  void AppendGuides(std::string& html) const;
  void AppendSeries(std::string& html, const PlotSeries& series,
                    const std::string& colour) const;
  void AppendMark(std::string& html, const PlotSeries& series,
                  const PlotSeries::Point& point,
                  const std::string& colour) const;

  const Plot& plot_;
  const double width_;
  Axis x_;
  Axis y_;
  bool empty_ = true;
};

void Drawing::AppendLegend(std::string& html) const {
  if (plot_.series.size() < 2) return;
  absl::StrAppend(&html, "<ul class=\"legend\">");
  for (size_t i = 0; i < plot_.series.size(); ++i) {
    absl::StrAppend(&html, "<li><svg viewBox=\"0 0 18 8\"><line class=\"line ",
                    Colour(i), "\" x1=\"0\" y1=\"4\" x2=\"18\" y2=\"4\"/>",
                    "</svg>", EscapeHtml(plot_.series[i].name), "</li>");
  }
  absl::StrAppend(&html, "</ul>");
}

void Drawing::AppendAxes(std::string& html) const {
  const double bottom = kHeight - kBottom;
  for (const double tick : y_.Ticks()) {
    absl::StrAppendFormat(
        &html,
        "<line class=\"grid\" x1=\"%g\" y1=\"%.1f\" x2=\"%g\" y2=\"%.1f\"/>"
        "<text class=\"end\" x=\"%g\" y=\"%.1f\">%s</text>",
        kLeft, Y(tick), width_ - kRight, Y(tick), kLeft - 7, Y(tick) + 4,
        EscapeHtml(y_.Label(tick, true)));
  }
  for (const double tick : x_.Ticks()) {
    absl::StrAppendFormat(
        &html,
        "<line class=\"grid\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\"/>"
        "<text class=\"mid\" x=\"%.1f\" y=\"%g\">%s</text>",
        X(tick), bottom, X(tick), bottom + 5, X(tick), bottom + 18,
        EscapeHtml(x_.Label(tick, true)));
  }
  absl::StrAppendFormat(
      &html,
      "<line class=\"axis\" x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\"/>"
      "<text class=\"mid name\" x=\"%g\" y=\"%g\">%s</text>",
      kLeft, bottom, width_ - kRight, bottom, (kLeft + width_ - kRight) / 2,
      kHeight - 6, EscapeHtml(plot_.x_name));
}

void Drawing::AppendGuides(std::string& html) const {
  for (const PlotGuide& guide : plot_.horizontal) {
    const double y = Y(guide.value);
    absl::StrAppendFormat(
        &html,
        "<line class=\"guide\" x1=\"%g\" y1=\"%.1f\" x2=\"%g\" y2=\"%.1f\"/>"
        "<text class=\"guide\" x=\"%g\" y=\"%.1f\">%s</text>",
        kLeft, y, width_ - kRight, y, kLeft + 6, y < kTop + 14 ? y + 13 : y - 5,
        EscapeHtml(guide.name));
  }
  for (const PlotGuide& guide : plot_.vertical) {
    const double x = X(guide.value);
    const bool right = x > width_ * 0.8;
    absl::StrAppendFormat(
        &html,
        "<line class=\"guide\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\"/>"
        "<text class=\"%s guide\" x=\"%.1f\" y=\"%g\">%s</text>",
        x, kTop, x, kHeight - kBottom, right ? "end" : "start",
        right ? x - 5 : x + 5, kTop + 10, EscapeHtml(guide.name));
  }
}

void Drawing::AppendSeries(std::string& html, const PlotSeries& series,
                           const std::string& colour) const {
  std::string path;
  bool pen_down = false;
  for (const PlotSeries::Point& point : series.points) {
    if (!std::isfinite(point.y)) {
      pen_down = false;
      continue;
    }
    absl::StrAppendFormat(&path, "%c%.1f,%.1f", pen_down ? 'L' : 'M',
                          X(point.x), Y(point.y));
    pen_down = true;
  }
  absl::StrAppend(&html, "<path class=\"line ", colour, "\" d=\"", path,
                  "\"/>");
  for (size_t i = 0; i < series.points.size(); ++i) {
    const PlotSeries::Point& point = series.points[i];
    if (!std::isfinite(point.y)) continue;
    const bool alone = (i == 0 || !std::isfinite(series.points[i - 1].y)) &&
                       (i + 1 == series.points.size() ||
                        !std::isfinite(series.points[i + 1].y));
    if (series.marks || alone) AppendMark(html, series, point, colour);
  }
}

void Drawing::AppendMark(std::string& html, const PlotSeries& series,
                         const PlotSeries::Point& point,
                         const std::string& colour) const {
  if (point.spread > 0) {
    absl::StrAppendFormat(
        &html,
        "<line class=\"line %s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
        "y2=\"%.1f\"/>",
        colour, X(point.x), Y(point.y - point.spread), X(point.x),
        Y(point.y + point.spread));
  }
  absl::StrAppendFormat(
      &html,
      "<circle class=\"%s %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"><title>%s"
      "</title></circle>",
      point.doubtful ? "hollow" : "mark", colour, X(point.x), Y(point.y), kMark,
      EscapeHtml(absl::StrCat(plot_.x_name, " ", x_.Label(point.x, false), ", ",
                              series.name, ": ", y_.Label(point.y, false))));
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"},
                                    {"<", "&lt;"},
                                    {">", "&gt;"},
                                    {"\"", "&quot;"},
                                    {"'", "&#39;"}});
}

std::string DrawPlot(const Plot& plot) {
  const Drawing drawing(plot);
  return drawing.empty() ? "" : drawing.Html();
}

absl::string_view PlotStyles() {
  return R"(figure{margin:0;padding:14px 16px 8px;background:var(--card);
border:1px solid var(--edge);border-radius:8px}
figcaption{font-weight:600;margin-bottom:4px}
figure>svg{width:100%;height:auto;display:block}
figure text{font-size:11.5px;fill:var(--soft)}
figure text.end{text-anchor:end}figure text.mid{text-anchor:middle}
figure text.name{fill:var(--text)}
.wide-plot{grid-column:1/-1}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 16px;margin:0;
padding:0;font-size:13px;color:var(--soft)}
.legend svg{width:18px;height:8px;margin-right:6px}
.grid{stroke:var(--edge);stroke-width:1}.axis{stroke:var(--soft)}
.line{fill:none;stroke-width:2;stroke-linejoin:round}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}
.c3{stroke:var(--c3)}
.mark.c0{fill:var(--c0)}.mark.c1{fill:var(--c1)}.mark.c2{fill:var(--c2)}
.mark.c3{fill:var(--c3)}.hollow{fill:var(--card);stroke-width:2}
line.guide{stroke:var(--guide);stroke-width:1.5;stroke-dasharray:6 4}
figure text.guide{fill:var(--guide);font-weight:600}
)";
}

}  // namespace steadystate::client
