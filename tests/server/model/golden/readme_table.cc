#include "tests/server/model/golden/readme_table.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

constexpr char kReadme[] =
    STEADYSTATE_SOURCE_DIR "/server/model/mixers/README.md";
constexpr absl::string_view kBegin =
    "<!-- made by tests/golden/table.py: begin -->";
constexpr absl::string_view kEnd =
    "<!-- made by tests/golden/table.py: end -->";

// Columns of the table, the first being what precedes the first bar.
enum Column { kModelType = 1, kF32 = 4, kBf16 = 5, kColumns = 8 };

}  // namespace

std::map<std::string, ErrorBounds> ReadmeErrorBounds() {
  const std::string text = ReadWholeFile(kReadme);
  const size_t begin = text.find(std::string(kBegin));
  const size_t end = text.find(std::string(kEnd));
  if (begin == std::string::npos || end == std::string::npos) {
    std::fprintf(stderr, "%s: no table between the markers\n", kReadme);
    std::abort();
  }
  std::map<std::string, ErrorBounds> bounds;
  for (const absl::string_view line :
       absl::StrSplit(text.substr(begin, end - begin), '\n')) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, '|');
    if (cells.size() != kColumns) continue;
    absl::string_view name = absl::StripAsciiWhitespace(cells[kModelType]);
    ErrorBounds row;
    if (!absl::ConsumePrefix(&name, "`") || !absl::ConsumeSuffix(&name, "`") ||
        !absl::SimpleAtod(cells[kF32], &row.f32) ||
        !absl::SimpleAtod(cells[kBf16], &row.bf16)) {
      continue;
    }
    bounds[std::string(name)] = row;
  }
  return bounds;
}

}  // namespace steadystate
