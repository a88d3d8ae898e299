#ifndef STEADYSTATE_TESTS_BENCH_REPORT_H_
#define STEADYSTATE_TESTS_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "tests/bench/samples.h"

namespace steadystate::bench {

// A column of a table: which field of a row it shows, and how.
struct Column {
  std::string key;     // "step_ms"
  std::string header;  // "step, ms"
  int digits = 0;      // behind the point; of text and whole numbers none
};

// Rows of one kind: objects with the same fields.
struct Section {
  std::string name;   // its field in JSON, "decode"
  std::string title;  // one line, for people
  std::vector<Column> columns;
  std::vector<nlohmann::json> rows;
};

// What a benchmark found.
struct Report {
  std::string benchmark;  // "engine"
  // See DescribeEnvironment; "quick" tells whether it measured anything.
  nlohmann::json environment;
  std::vector<Section> sections;
  std::vector<std::string> notes;  // sentences, for people
};

// Enters the median of some samples into a row as `key`, and their spread as
// `key`_p10 and `key`_p90, which tables show behind it.
void Put(nlohmann::json& row, absl::string_view key, const Samples& samples);

// An object with "benchmark", "environment", "notes", and for each section an
// array of its rows under its name.
nlohmann::json ToJson(const Report& report);

// Aligned columns, for people.
std::string ToText(const Report& report);

// Tables that a README can take over as they are.
std::string ToMarkdown(const Report& report);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_REPORT_H_
