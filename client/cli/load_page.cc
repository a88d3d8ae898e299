#include "client/cli/load_page.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/load_plot.h"

namespace steadystate::client {
namespace {

constexpr absl::string_view kStyles = R"(:root{color-scheme:light dark;
--page:#f6f7f9;--card:#fff;--edge:#dfe3e8;--text:#1b2129;--soft:#5b6672;
--good:#0a7a45;--bad:#b3261e;--guide:#a3360f;--c0:#0067b8;--c1:#d35400;
--c2:#00875a;--c3:#a0439a}
@media (prefers-color-scheme:dark){:root{--page:#14181d;--card:#1c2229;
--edge:#343c46;--text:#e8ecf1;--soft:#a3afbc;--good:#5bd08f;--bad:#ff8a80;
--guide:#ffa07a;--c0:#5db4ff;--c1:#ffa14f;--c2:#4fd6a0;--c3:#e39bdf}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:24px 20px 48px;
background:var(--page);color:var(--text);
font:15px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:24px;margin:0}h2{font-size:18px;margin:28px 0 10px}
header{display:flex;flex-wrap:wrap;gap:4px 14px;align-items:center}
header p{flex-basis:100%;margin:0;color:var(--soft)}
.badge{padding:2px 10px;border-radius:12px;border:1.5px solid;font-weight:600;
font-size:13px}
.good{color:var(--good)}.bad{color:var(--bad)}.neutral{color:var(--soft)}
.tiles{display:grid;gap:12px;margin:18px 0;
grid-template-columns:repeat(auto-fit,minmax(175px,1fr))}
.tiles div{background:var(--card);border:1px solid var(--edge);
border-radius:8px;padding:10px 14px}
.tiles b{display:block;font-size:23px;font-variant-numeric:tabular-nums}
.tiles small{font-size:14px;font-weight:500}
.tiles span,.tiles i{display:block;color:var(--soft);font-size:13px;
font-style:normal}
.box{background:var(--card);border:1px solid var(--edge);border-left-width:5px;
border-radius:6px;padding:8px 14px;margin:10px 0}
.box.bad{border-left-color:var(--bad)}.box.neutral{border-left-color:var(--c0)}
.box b{margin-right:6px}.box p{margin:2px 0;color:var(--text)}
.plots{display:grid;gap:14px;
grid-template-columns:repeat(auto-fit,minmax(min(520px,100%),1fr))}
.wide{overflow-x:auto;background:var(--card);border:1px solid var(--edge);
border-radius:8px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:right;white-space:nowrap}
th{white-space:normal;vertical-align:bottom;font-weight:600;
color:var(--soft);font-size:13px}
th:first-child,td:first-child{text-align:left}
td{border-top:1px solid var(--edge)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:5px 18px;margin:0;
background:var(--card);border:1px solid var(--edge);border-radius:8px;
padding:12px 16px}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media print{body{background:none}figure,.tiles div{break-inside:avoid}}
)";

absl::string_view ClassOf(HtmlPage::Tone tone) {
  switch (tone) {
    case HtmlPage::Tone::kGood:
      return "good";
    case HtmlPage::Tone::kBad:
      return "bad";
    case HtmlPage::Tone::kNeutral:
      break;
  }
  return "neutral";
}

}  // namespace

HtmlPage::HtmlPage(absl::string_view title, absl::string_view subtitle,
                   absl::string_view badge, Tone tone) {
  html_ = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      // Should anything get past the escaping, it may still not run or load.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
      EscapeHtml(title), "</title>\n<style>", kStyles, PlotStyles(),
      "</style></head>\n<body>\n<header><h1>", EscapeHtml(title), "</h1>");
  absl::StrAppend(&html_, "<span class=\"badge ", ClassOf(tone), "\">",
                  EscapeHtml(badge), "</span><p>", EscapeHtml(subtitle),
                  "</p></header>\n");
}

void HtmlPage::AddTiles(const std::vector<Tile>& tiles) {
  absl::StrAppend(&html_, "<div class=\"tiles\">");
  for (const Tile& tile : tiles) {
    absl::StrAppend(&html_, "<div><span>", EscapeHtml(tile.name), "</span><b>",
                    EscapeHtml(tile.value), " <small>", EscapeHtml(tile.unit),
                    "</small></b><i>", EscapeHtml(tile.remark), "</i></div>\n");
  }
  absl::StrAppend(&html_, "</div>\n");
}

void HtmlPage::AddHeading(absl::string_view text) {
  absl::StrAppend(&html_, "<h2>", EscapeHtml(text), "</h2>\n");
}

void HtmlPage::AddSentences(absl::string_view name, Tone tone,
                            const std::vector<std::string>& sentences) {
  if (sentences.empty()) return;
  absl::StrAppend(&html_, "<div class=\"box ", ClassOf(tone), "\">");
  for (const std::string& sentence : sentences) {
    absl::StrAppend(&html_, "<p><b class=\"", ClassOf(tone), "\">",
                    EscapeHtml(name), "</b>", EscapeHtml(sentence), "</p>\n");
  }
  absl::StrAppend(&html_, "</div>\n");
}

void HtmlPage::AddPlots(std::vector<Plot> plots) {
  const auto is_empty = [](const Plot& plot) { return DrawPlot(plot).empty(); };
  plots.erase(std::remove_if(plots.begin(), plots.end(), is_empty),
              plots.end());
  absl::StrAppend(&html_, "<div class=\"plots\">\n");
  // Two to a row: without a hole at the end.
  if (plots.size() % 2 == 1) plots[0].wide = true;
  for (const Plot& plot : plots) html_ += DrawPlot(plot);
  absl::StrAppend(&html_, "</div>\n");
}

void HtmlPage::AddTable(const std::vector<std::string>& names,
                        const std::vector<std::vector<std::string>>& rows) {
  absl::StrAppend(&html_, "<div class=\"wide\"><table><thead><tr>");
  for (const std::string& name : names) {
    absl::StrAppend(&html_, "<th>", EscapeHtml(name), "</th>");
  }
  absl::StrAppend(&html_, "</tr></thead><tbody>\n");
  for (const auto& row : rows) {
    absl::StrAppend(&html_, "<tr>");
    for (size_t i = 0; i < names.size(); ++i) {
      absl::StrAppend(&html_, "<td>", i < row.size() ? EscapeHtml(row[i]) : "",
                      "</td>");
    }
    absl::StrAppend(&html_, "</tr>\n");
  }
  absl::StrAppend(&html_, "</tbody></table></div>\n");
}

void HtmlPage::AddFacts(
    const std::vector<std::pair<std::string, std::string>>& facts) {
  absl::StrAppend(&html_, "<dl>\n");
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&html_, "<dt>", EscapeHtml(name), "</dt><dd>",
                    EscapeHtml(value), "</dd>\n");
  }
  absl::StrAppend(&html_, "</dl>\n");
}

std::string HtmlPage::Take() && {
  return std::move(html_) + "</body></html>\n";
}

}  // namespace steadystate::client
