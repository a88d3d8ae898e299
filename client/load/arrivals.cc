#include "client/load/arrivals.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/load/random.h"

namespace steadystate::client {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kMaxStages = 100;

nanoseconds FromSeconds(double seconds) {
  return nanoseconds(std::llround(seconds * 1e9));
}

class PoissonRateArrivals final : public Arrivals {
 public:
  PoissonRateArrivals(double rate, uint64_t seed) : arrivals_(rate, seed) {}
  std::optional<nanoseconds> Next() override { return arrivals_.Next(); }

 private:
  PoissonArrivals arrivals_;
};

class ConstantRateArrivals final : public Arrivals {
 public:
  explicit ConstantRateArrivals(double rate) : rate_(rate) {}

  // From the count, since gaps that are added up would drift.
  std::optional<nanoseconds> Next() override {
    const double seconds = static_cast<double>(count_++) / rate_;
    return FromSeconds(std::fmin(seconds, absl::ToDoubleSeconds(kMaxLoadTime)));
  }

 private:
  const double rate_;
  uint64_t count_ = 0;
};

// A process of rate 1 whose time is the number of arrivals that the stages
// expect, turned back into time.
class StageArrivals final : public Arrivals {
 public:
  StageArrivals(const std::vector<Stage>& stages, ArrivalProcess process,
                uint64_t seed)
      : stages_(stages),
        process_(process),
        poisson_(/*rate_per_second=*/1, seed) {}

  std::optional<nanoseconds> Next() override;

 private:
  // Arrivals that the rest of the stage expects, from `rate_` to its own.
  double ExpectedIn(const Stage& stage) const {
    return (rate_ + stage.rate) / 2 * absl::ToDoubleSeconds(stage.duration);
  }

  const std::vector<Stage>& stages_;
  const ArrivalProcess process_;
  PoissonArrivals poisson_;
  uint64_t count_ = 0;
  // Of the stage that is on.
  size_t stage_ = 0;
  double rate_ = 0;      // at its beginning
  double begin_ = 0;     // seconds
  double expected_ = 0;  // arrivals before it
};

std::optional<nanoseconds> StageArrivals::Next() {
  const double wanted =
      process_ == ArrivalProcess::kPoisson
          ? std::chrono::duration<double>(poisson_.Next()).count()
          : static_cast<double>(++count_);
  for (; stage_ < stages_.size(); ++stage_) {
    const Stage& stage = stages_[stage_];
    const double seconds = absl::ToDoubleSeconds(stage.duration);
    const double rest = wanted - expected_;
    if (rest <= ExpectedIn(stage) && seconds > 0) {
      // The time at which rate * t + slope / 2 * t^2 is what is left, in a form
      // that has no difference of near numbers.
      const double slope = (stage.rate - rate_) / seconds;
      const double root =
          std::sqrt(std::fmax(rate_ * rate_ + 2 * slope * rest, 0));
      return FromSeconds(begin_ +
                         std::fmin(2 * rest / (rate_ + root), seconds));
    }
    expected_ += ExpectedIn(stage);
    begin_ += seconds;
    rate_ = stage.rate;
  }
  return std::nullopt;
}

class TraceArrivals final : public Arrivals {
 public:
  explicit TraceArrivals(const std::vector<nanoseconds>& times)
      : times_(times) {}

  std::optional<nanoseconds> Next() override {
    if (next_ == times_.size()) return std::nullopt;
    return times_[next_++];
  }

 private:
  const std::vector<nanoseconds>& times_;
  size_t next_ = 0;
};

absl::StatusOr<Stage> ParseStage(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  Stage stage;
  if (!absl::ParseDuration(words.first, &stage.duration) ||
      !absl::SimpleAtod(words.second, &stage.rate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is not DURATION:RATE, such as 10s:5 for five requests "
                     "per second after ten seconds"));
  }
  if (stage.duration < absl::ZeroDuration() || stage.duration > kMaxLoadTime ||
      !(stage.rate >= 0 && stage.rate <= kMaxRequestRate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "': the duration must be 0 to ",
        absl::FormatDuration(kMaxLoadTime), ", the rate 0 to ",
        static_cast<uint64_t>(kMaxRequestRate), " requests per second"));
  }
  return stage;
}

}  // namespace

absl::StatusOr<std::vector<Stage>> ParseStages(absl::string_view text) {
  std::vector<Stage> stages;
  double highest = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    if (stages.size() == kMaxStages) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxStages, " stages"));
    }
    auto stage = ParseStage(part);
    if (!stage.ok()) return stage.status();
    highest = std::fmax(highest, stage->rate);
    stages.push_back(*stage);
  }
  const absl::Duration total = TotalDuration(stages);
  if (highest == 0 || total == absl::ZeroDuration() || total > kMaxLoadTime) {
    return absl::InvalidArgumentError(
        absl::StrCat("the stages must take more than no time and at most ",
                     absl::FormatDuration(kMaxLoadTime),
                     ", and one must have a rate above 0"));
  }
  return stages;
}

std::string ToString(const std::vector<Stage>& stages) {
  return absl::StrJoin(stages, ",", [](std::string* out, const Stage& stage) {
    absl::StrAppend(out, absl::FormatDuration(stage.duration), ":", stage.rate);
  });
}

absl::Duration TotalDuration(const std::vector<Stage>& stages) {
  absl::Duration total;
  for (const Stage& stage : stages) total += stage.duration;
  return total;
}

absl::StatusOr<std::vector<nanoseconds>> ParseTrace(absl::string_view text) {
  std::vector<nanoseconds> times;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    double seconds = 0;
    const bool read = absl::SimpleAtod(line, &seconds) && seconds >= 0 &&
                      seconds <= absl::ToDoubleSeconds(kMaxLoadTime);
    const nanoseconds time = read ? FromSeconds(seconds) : nanoseconds(0);
    if (!read || (!times.empty() && time < times.back())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, " is '", line.substr(0, 40),
          "'; it must be a number of seconds since the beginning, no less "
          "than the one before and at most a year"));
    }
    if (times.size() == kMaxTraceTimes) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxTraceTimes, " times"));
    }
    times.push_back(time);
  }
  if (times.empty()) return absl::InvalidArgumentError("no times");
  return times;
}

std::unique_ptr<Arrivals> MakeRateArrivals(double rate, ArrivalProcess process,
                                           uint64_t seed) {
  if (process == ArrivalProcess::kConstant) {
    return std::make_unique<ConstantRateArrivals>(rate);
  }
  return std::make_unique<PoissonRateArrivals>(rate, seed);
}

std::unique_ptr<Arrivals> MakeStageArrivals(const std::vector<Stage>& stages,
                                            ArrivalProcess process,
                                            uint64_t seed) {
  return std::make_unique<StageArrivals>(stages, process, seed);
}

std::unique_ptr<Arrivals> MakeTraceArrivals(
    const std::vector<nanoseconds>& times) {
  return std::make_unique<TraceArrivals>(times);
}

}  // namespace steadystate::client
