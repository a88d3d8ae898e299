#ifndef STEADYSTATE_CLIENT_CLI_LOAD_COMPARE_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/output.h"
#include "client/load/estimate.h"

namespace steadystate::client {

// One figure of two reports.
struct ComparedFigure {
  enum class Verdict { kBetter, kWorse, kSame, kUncertain };

  std::string name;  // "time_to_first_token_p99_seconds"
  bool seconds = false;
  Estimate a;
  Estimate b;
  // What B is beside A. Uncertain: repeated runs differ by no more than chance
  // may bring, at 95 %. Same: within the 1 % that figures are exact to.
  Verdict verdict = Verdict::kSame;
};

// What two reports say where both have the same load.
struct ComparedPoint {
  std::optional<double> value;  // of a sweep
  std::vector<ComparedFigure> figures;
};

// Two reports beside each other.
struct LoadComparison {
  std::string variable;               // "rate", "sessions" or ""
  std::vector<ComparedPoint> points;  // at least one
  std::vector<std::string> notes;     // what else differs, for people
};

// Compares two JSON reports, both of one run or both of several.
// INVALID_ARGUMENT if one is no report; FAILED_PRECONDITION, naming what
// differs, if they are not of the same load, or if one is INVALID.
absl::StatusOr<LoadComparison> CompareReports(absl::string_view a,
                                              absl::string_view b);

// For people, in 80 columns.
std::string FormatComparisonText(const LoadComparison& comparison);

// For programs.
Json FormatComparisonJson(const LoadComparison& comparison);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_COMPARE_H_
