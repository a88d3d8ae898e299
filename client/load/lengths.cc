#include "client/load/lengths.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace steadystate::client {
namespace {

// No length is longer; options have lower bounds of their own.
constexpr uint64_t kMaxLength = 1000000000;
constexpr double kDefaultMost = 10;  // times the mean

absl::Status Unreadable(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is neither a number of tokens nor uniform:LEAST:MOST nor "
                   "lognormal:MEAN:STDDEV[:MOST]"));
}

}  // namespace

absl::StatusOr<Lengths> Lengths::Uniform(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  uint64_t least = 0;
  uint64_t most = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &least) ||
      !absl::SimpleAtoi(parts[2], &most)) {
    return Unreadable(text);
  }
  if (least > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("LEAST of '", text, "' is more than MOST"));
  }
  return Lengths(Kind::kUniform, least, most);
}

absl::StatusOr<Lengths> Lengths::Lognormal(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  double mean = 0;
  double deviation = 0;
  if (parts.size() < 3 || parts.size() > 4 ||
      !absl::SimpleAtod(parts[1], &mean) ||
      !absl::SimpleAtod(parts[2], &deviation)) {
    return Unreadable(text);
  }
  if (!(mean >= 1 && mean <= static_cast<double>(kMaxLength)) ||
      !(deviation > 0 && deviation <= static_cast<double>(kMaxLength))) {
    return absl::InvalidArgumentError(
        absl::StrCat("MEAN of '", text, "' must be 1 to ", kMaxLength,
                     ", and STDDEV above 0 and no more"));
  }
  auto most = static_cast<uint64_t>(std::ceil(mean * kDefaultMost));
  if (parts.size() == 4 && !absl::SimpleAtoi(parts[3], &most)) {
    return Unreadable(text);
  }
  if (static_cast<double>(most) < mean) {
    return absl::InvalidArgumentError(
        absl::StrCat("MOST of '", text, "' is less than MEAN"));
  }
  Lengths lengths(Kind::kLognormal, 1, most);
  lengths.mean_ = mean;
  lengths.deviation_ = deviation;
  return lengths;
}

absl::StatusOr<Lengths> Lengths::Parse(absl::string_view text) {
  uint64_t tokens = 0;
  if (absl::SimpleAtoi(text, &tokens)) return Lengths(tokens);
  const absl::string_view kind = text.substr(0, text.find(':'));
  if (kind == "uniform") return Uniform(text);
  if (kind == "lognormal") return Lognormal(text);
  return Unreadable(text);
}

std::string Lengths::ToString() const {
  switch (kind_) {
    case Kind::kConstant:
      return absl::StrCat(least_);
    case Kind::kUniform:
      return absl::StrCat("uniform:", least_, ":", most_);
    case Kind::kLognormal:
      break;
  }
  return absl::StrCat("lognormal:", mean_, ":", deviation_, ":", most_);
}

double Lengths::mean() const {
  if (kind_ == Kind::kLognormal) return mean_;
  return (static_cast<double>(least_) + static_cast<double>(most_)) / 2;
}

uint64_t Lengths::Draw(Random& random) const {
  if (kind_ != Kind::kLognormal) {
    return least_ + random.Below(most_ - least_ + 1);
  }
  const double variance = std::log1p(std::pow(deviation_ / mean_, 2));
  // Box and Muller's way to a normal number.
  const double radius = std::sqrt(-2 * std::log(random.Unit()));
  const double normal = radius * std::cos(2 * std::numbers::pi * random.Unit());
  const double length =
      std::exp(std::log(mean_) - variance / 2 + normal * std::sqrt(variance));
  return static_cast<uint64_t>(
      std::llround(std::clamp(length, 1.0, static_cast<double>(most_))));
}

}  // namespace steadystate::client
