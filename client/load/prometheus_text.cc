#include "client/load/prometheus_text.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace steadystate::client {
namespace {

// Reads name="value",... up to the closing brace, which it takes off `text`.
// False if that is not what stands there.
bool TakeLabels(absl::string_view& text,
                std::map<std::string, std::string>& labels) {
  while (!absl::ConsumePrefix(&text, "}")) {
    absl::ConsumePrefix(&text, ",");
    const size_t equals = text.find("=\"");
    if (equals == absl::string_view::npos) return false;
    const std::string name(text.substr(0, equals));
    text.remove_prefix(equals + 2);
    std::string value;
    while (!text.empty() && text[0] != '"') {
      if (text[0] == '\\' && text.size() > 1) text.remove_prefix(1);
      value += text[0];
      text.remove_prefix(1);
    }
    if (!absl::ConsumePrefix(&text, "\"")) return false;
    labels[name] = value;
  }
  return true;
}

}  // namespace

MetricsPage::MetricsPage(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ReadLine(line);
  }
}

void MetricsPage::ReadLine(absl::string_view line) {
  if (line.empty() || line[0] == '#') return;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == absl::string_view::npos) return;
  const std::string name(line.substr(0, name_end));
  line.remove_prefix(name_end);
  Sample sample;
  if (absl::ConsumePrefix(&line, "{") && !TakeLabels(line, sample.labels)) {
    return;
  }
  line = absl::StripLeadingAsciiWhitespace(line);
  // A time may follow.
  if (!absl::SimpleAtod(line.substr(0, line.find(' ')), &sample.value)) return;
  samples_.emplace(name, std::move(sample));
}

std::optional<double> MetricsPage::Sum(absl::string_view name) const {
  const auto [begin, end] = samples_.equal_range(name);
  if (begin == end) return std::nullopt;
  double sum = 0;
  for (auto sample = begin; sample != end; ++sample) {
    sum += sample->second.value;
  }
  return sum;
}

std::map<double, double> MetricsPage::Buckets(absl::string_view name,
                                              absl::string_view label,
                                              absl::string_view value) const {
  std::map<double, double> buckets;
  const auto [begin, end] = samples_.equal_range(absl::StrCat(name, "_bucket"));
  for (auto sample = begin; sample != end; ++sample) {
    const auto& labels = sample->second.labels;
    const auto found = labels.find(std::string(label));
    const auto bound = labels.find("le");
    double most = 0;
    if (found == labels.end() || found->second != value ||
        bound == labels.end() || !absl::SimpleAtod(bound->second, &most)) {
      continue;
    }
    buckets[most] += sample->second.value;
  }
  return buckets;
}

std::vector<std::string> MetricsPage::LabelValues(
    absl::string_view name, absl::string_view label) const {
  std::set<std::string> values;
  const auto [begin, end] = samples_.equal_range(name);
  for (auto sample = begin; sample != end; ++sample) {
    const auto found = sample->second.labels.find(std::string(label));
    if (found != sample->second.labels.end()) values.insert(found->second);
  }
  return {values.begin(), values.end()};
}

std::optional<double> QuantileBetween(const std::map<double, double>& before,
                                      const std::map<double, double>& after,
                                      double quantile) {
  const auto added = [&before](const std::pair<const double, double>& bucket) {
    const auto old = before.find(bucket.first);
    return bucket.second - (old == before.end() ? 0 : old->second);
  };
  if (after.empty()) return std::nullopt;
  const double total = added(*after.rbegin());
  if (!(total > 0)) return std::nullopt;
  const double rank = quantile * total;
  double lower = 0;
  double seen = 0;
  for (const auto& bucket : after) {
    const double upto = added(bucket);
    if (upto >= rank) {
      if (std::isinf(bucket.first)) return lower;
      const double within = upto > seen ? (rank - seen) / (upto - seen) : 1;
      return lower + (bucket.first - lower) * std::clamp(within, 0.0, 1.0);
    }
    lower = bucket.first;
    seen = upto;
  }
  return lower;
}

}  // namespace steadystate::client
