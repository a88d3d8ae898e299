#ifndef STEADYSTATE_CLIENT_CLI_LOAD_PAGE_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_PAGE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/load_plot.h"

namespace steadystate::client {

// Writes a page of figures, piece by piece. Whatever it is given is text and
// stands there as such. Thread-compatible.
class HtmlPage {
 public:
  // How things went.
  enum class Tone { kGood, kBad, kNeutral };

  // `badge`: a word or two on how things went.
  HtmlPage(absl::string_view title, absl::string_view subtitle,
           absl::string_view badge, Tone tone);

  // The few numbers that matter most, each with its name and a remark.
  struct Tile {
    std::string name;
    std::string value;
    std::string unit;
    std::string remark;
  };
  void AddTiles(const std::vector<Tile>& tiles);

  void AddHeading(absl::string_view text);
  // Sentences in a box; nothing if there are none.
  void AddSentences(absl::string_view name, Tone tone,
                    const std::vector<std::string>& sentences);
  // Those that have something to show, beside each other.
  void AddPlots(std::vector<Plot> plots);
  // The first column is text, the others are numbers. A row that is shorter
  // than the names has empty cells at its end.
  void AddTable(const std::vector<std::string>& names,
                const std::vector<std::vector<std::string>>& rows);
  // Names and what they are.
  void AddFacts(const std::vector<std::pair<std::string, std::string>>& facts);

  // The page. Used once, at the end.
  std::string Take() &&;

 private:
  std::string html_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_PAGE_H_
