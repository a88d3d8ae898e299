#include "tests/bench/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace steadystate::bench {
namespace {

using Lines = std::vector<std::vector<std::string>>;  // cells by row

std::string Number(const nlohmann::json& value, int digits) {
  return absl::StrFormat("%.*f", digits, value.get<double>());
}

// A field that a row lacks, or that is null, is not known.
std::string Cell(const nlohmann::json& row, const Column& column) {
  const auto value = row.find(column.key);
  if (value == row.end() || value->is_null()) return "-";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_number()) return value->dump();
  std::string cell = Number(*value, column.digits);
  const auto low = row.find(column.key + "_p10");
  const auto high = row.find(column.key + "_p90");
  if (low != row.end() && high != row.end()) {
    absl::StrAppend(&cell, " (", Number(*low, column.digits), "-",
                    Number(*high, column.digits), ")");
  }
  return cell;
}

// The header first.
Lines Cells(const Section& section) {
  Lines lines(1);
  for (const Column& column : section.columns) {
    lines[0].push_back(column.header);
  }
  for (const nlohmann::json& row : section.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const Column& column : section.columns) {
      line.push_back(Cell(row, column));
    }
  }
  return lines;
}

std::string Aligned(const Lines& lines) {
  std::vector<size_t> widths(lines[0].size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (const auto& line : lines) {
    // The first column is a name, the others are numbers.
    absl::StrAppendFormat(&text, "  %-*s", widths[0], line[0]);
    for (size_t i = 1; i < line.size(); ++i) {
      absl::StrAppendFormat(&text, "  %*s", widths[i], line[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

void Put(nlohmann::json& row, absl::string_view key, const Samples& samples) {
  const std::string name(key);
  row[name] = samples.Median();
  row[name + "_p10"] = samples.Quantile(0.1);
  row[name + "_p90"] = samples.Quantile(0.9);
}

nlohmann::json ToJson(const Report& report) {
  nlohmann::json json = {{"benchmark", report.benchmark},
                         {"environment", report.environment},
                         {"notes", report.notes}};
  for (const Section& section : report.sections) {
    json[section.name] = section.rows;
  }
  return json;
}

std::string ToText(const Report& report) {
  std::string text;
  for (const auto& [key, value] : report.environment.items()) {
    absl::StrAppend(&text, key, ": ",
                    value.is_string() ? value.get<std::string>() : value.dump(),
                    "\n");
  }
  for (const Section& section : report.sections) {
    absl::StrAppend(&text, "\n", section.title, "\n", Aligned(Cells(section)));
  }
  for (const std::string& note : report.notes) {
    absl::StrAppend(&text, "\n", note, "\n");
  }
  return text;
}

std::string ToMarkdown(const Report& report) {
  std::string text;
  for (const Section& section : report.sections) {
    const Lines lines = Cells(section);
    absl::StrAppend(&text, section.title, "\n\n");
    for (size_t i = 0; i < lines.size(); ++i) {
      absl::StrAppend(&text, "| ", absl::StrJoin(lines[i], " | "), " |\n");
      if (i > 0) continue;
      text += '|';
      for (size_t j = 0; j < lines[0].size(); ++j) {
        text += j == 0 ? "---|" : "---:|";
      }
      text += '\n';
    }
    text += '\n';
  }
  for (const std::string& note : report.notes) {
    absl::StrAppend(&text, note, "\n\n");
  }
  return text;
}

}  // namespace steadystate::bench
