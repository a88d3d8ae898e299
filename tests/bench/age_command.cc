// `steadystate-bench age`: a session costs the same after a million tokens as
// at its beginning, whatever linear family it is of; one with softmax layers
// does not.

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/model/registry.h"
#include "tests/bench/command.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/environment.h"
#include "tests/bench/step_and_wait.h"

namespace steadystate::bench {
namespace {

constexpr uint64_t kMaxTokens = 1000000000;
// Tokens of one request while a session ages.
constexpr size_t kPiece = size_t{1} << 16;
constexpr size_t kResamples = 1000;
constexpr char kSoftmax[] = "transformer";

// One token for one session, as a live stream would; returns seconds.
absl::StatusOr<double> TimeStep(Engine& engine, const std::string& session,
                                WriterId writer, int32_t token) {
  StepRequest request;
  request.session = session;
  request.writer = writer;
  request.tokens = {token};
  request.outputs.sampling.emplace().temperature = 0;
  const BenchClock::time_point start = BenchClock::now();
  STEADYSTATE_ASSIGN_OR_RETURN(const BenchClock::time_point done,
                               StepAndWait(engine, std::move(request)));
  return Seconds(done - start);
}

// Lets a session absorb random tokens up to position `to`.
absl::Status Age(Engine& engine, const std::string& session, WriterId writer,
                 uint64_t from, uint64_t to, uint64_t seed) {
  for (uint64_t at = from; at < to; at += kPiece) {
    StepRequest request;
    request.session = session;
    request.writer = writer;
    request.expected_position = at;
    request.tokens = RandomTokens(
        engine, static_cast<size_t>(std::min<uint64_t>(kPiece, to - at)),
        seed + at);
    STEADYSTATE_RETURN_IF_ERROR(
        StepAndWait(engine, std::move(request)).status());
  }
  return absl::OkStatus();
}

class AgeCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  absl::StatusOr<std::unique_ptr<BenchEngine>> EngineOf(
      const std::string& family, uint64_t context_cap) const;
  absl::StatusOr<nlohmann::json> Compare(const std::string& family,
                                         const RunOptions& run) const;
  absl::StatusOr<Section> Curve(const RunOptions& run) const;

  std::string checkpoints_ = STEADYSTATE_SOURCE_DIR "/tests/golden";
  std::vector<std::string> families_;
  std::optional<uint64_t> tokens_;
  std::optional<uint64_t> pairs_;
  std::optional<uint64_t> softmax_tokens_;
  std::optional<uint32_t> threads_;
};

CommandText AgeCommand::text() const {
  return {"age", "Latency of a token after a million tokens",
          "For every linear family: one session really absorbs --tokens "
          "tokens, then it and a fresh one step in turns, a pair at a time, "
          "through the engine in this process. Reports the ratio of the "
          "medians, with its bootstrap interval of 95 %. Beside it the same "
          "latency of softmax attention with its growing cache, as a curve. "
          "The checkpoints are the small random ones of tests/golden.",
          "  steadystate-bench age\n"
          "  steadystate-bench age --families gla,mamba2-groups --json\n"};
}

client::OptionTable AgeCommand::options() {
  return {{"families", "NAME,NAME,...",
           "Folders of --checkpoints. Default: every linear family.",
           [this](absl::string_view names) -> absl::Status {
             families_ = absl::StrSplit(names, ',');
             if (!absl::c_linear_search(families_, "")) return absl::OkStatus();
             return absl::InvalidArgumentError(absl::StrCat(
                 "'", names, "' has an empty name; write them as gla,mamba2"));
           }},
          {"checkpoints", "DIR",
           "Where a checkpoint of each family lies. Default: tests/golden of "
           "the tree that this was built from.",
           &checkpoints_},
          {"tokens", "N", "Age of the old session. Default 1000000.", &tokens_},
          {"pairs", "N", "Steps of each session. Default 2000.", &pairs_},
          {"softmax_tokens", "N",
           "Age up to which softmax attention is followed; 0: not at all. "
           "Default 32768.",
           &softmax_tokens_},
          {"threads", "N",
           "Threads that compute. Default: as many as this process may keep "
           "processors busy.",
           &threads_}};
}

absl::Status AgeCommand::Check(const RunOptions& run) {
  tokens_ = tokens_.value_or(run.Unless(3000, 1000000));
  pairs_ = pairs_.value_or(run.Unless(20, 2000));
  softmax_tokens_ = softmax_tokens_.value_or(run.Unless(2048, 32768));
  threads_ = threads_.value_or(static_cast<uint32_t>(UsableCpus()));
  if (*tokens_ > kMaxTokens || *pairs_ < 1 || *pairs_ > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tokens and --pairs must be at most ", kMaxTokens,
                     " and --pairs at least 1"));
  }
  if (!families_.empty()) return absl::OkStatus();
  for (const Family& family : Families()) {
    if (family.layer.tokens == TokenMixer::kFamily)
      families_.emplace_back(family.model_type);
  }
  if (run.quick) families_ = {"gla"};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BenchEngine>> AgeCommand::EngineOf(
    const std::string& family, uint64_t context_cap) const {
  STEADYSTATE_ASSIGN_OR_RETURN(
      auto model, Model::Load({.path = absl::StrCat(checkpoints_, "/", family),
                               .context_cap = context_cap}));
  EngineOptions options;
  options.threads = *threads_;
  return BenchEngine::Create(std::move(model), 2, options);
}

absl::StatusOr<nlohmann::json> AgeCommand::Compare(
    const std::string& family, const RunOptions& run) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto made, EngineOf(family, 0));
  Engine& engine = made->engine();
  const WriterId writer = engine.NewWriter();
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo old_one,
                               engine.CreateSession({}));
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo fresh,
                               engine.CreateSession({}));
  const BenchClock::time_point start = BenchClock::now();
  STEADYSTATE_RETURN_IF_ERROR(
      Age(engine, old_one.id, writer, 0, *tokens_, run.seed));
  const double aging = Seconds(BenchClock::now() - start);
  const std::vector<int32_t> tokens =
      RandomTokens(engine, static_cast<size_t>(*pairs_), run.seed);
  Samples old_times, fresh_times;
  for (size_t i = 0; i < tokens.size(); ++i) {
    // Each goes first every other time.
    for (const bool turn : {i % 2 == 0, i % 2 != 0}) {
      STEADYSTATE_ASSIGN_OR_RETURN(
          const double seconds,
          TimeStep(engine, turn ? old_one.id : fresh.id, writer, tokens[i]));
      (turn ? old_times : fresh_times).Add(seconds);
    }
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo info,
                               engine.GetSession(old_one.id));
  const Interval interval =
      BootstrapMedianRatio(old_times, fresh_times, kResamples, run.seed);
  nlohmann::json row = {
      {"family", family},
      {"position", info.position},
      {"pairs", *pairs_},
      {"aging_tokens_per_second", static_cast<double>(*tokens_) / aging},
      {"ratio", old_times.Median() / fresh_times.Median()},
      {"ratio_low", interval.low},
      {"ratio_high", interval.high},
      {"interval", absl::StrFormat("%.3f-%.3f", interval.low, interval.high)}};
  Put(row, "old_us", old_times.Times(1e6));
  Put(row, "fresh_us", fresh_times.Times(1e6));
  return row;
}

absl::StatusOr<Section> AgeCommand::Curve(const RunOptions& run) const {
  Section section{"softmax",
                  "Softmax attention with its cache, for comparison",
                  {{"position", "tokens so far"}, {"us", "us/token", 1}},
                  {}};
  const uint64_t steps = std::min<uint64_t>(*pairs_, 200);
  STEADYSTATE_ASSIGN_OR_RETURN(const auto made,
                               EngineOf(kSoftmax, *softmax_tokens_ + steps));
  Engine& engine = made->engine();
  const WriterId writer = engine.NewWriter();
  STEADYSTATE_ASSIGN_OR_RETURN(const SessionInfo session,
                               engine.CreateSession({}));
  uint64_t at = 0;
  for (uint64_t position = 0; position <= *softmax_tokens_;
       position = std::max<uint64_t>(1024, 2 * position)) {
    STEADYSTATE_RETURN_IF_ERROR(
        Age(engine, session.id, writer, at, position, run.seed));
    Samples times;
    for (uint64_t i = 0; i < steps; ++i) {
      STEADYSTATE_ASSIGN_OR_RETURN(const double seconds,
                                   TimeStep(engine, session.id, writer, 0));
      times.Add(seconds);
    }
    at = position + steps;
    nlohmann::json row = {{"position", position}};
    Put(row, "us", times.Times(1e6));
    section.rows.push_back(std::move(row));
  }
  return section;
}

absl::StatusOr<Report> AgeCommand::Run(const RunOptions& run) {
  Report report{"age", DescribeEnvironment(), {}, {}};
  report.environment["threads"] = *threads_;
  Section ages{"age",
               "Latency of a token, old session over fresh one",
               {{"family", "family"},
                {"position", "tokens so far"},
                {"old_us", "old, us", 1},
                {"fresh_us", "fresh, us", 1},
                {"ratio", "ratio", 3},
                {"interval", "95 %"}},
               {}};
  for (const std::string& family : families_) {
    std::fprintf(stderr, "%s ...\n", family.c_str());
    STEADYSTATE_ASSIGN_OR_RETURN(ages.rows.emplace_back(),
                                 Compare(family, run));
  }
  report.sections.push_back(std::move(ages));
  if (*softmax_tokens_ > 0) {
    STEADYSTATE_ASSIGN_OR_RETURN(report.sections.emplace_back(), Curve(run));
  }
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeAgeCommand() {
  return std::make_unique<AgeCommand>();
}

}  // namespace steadystate::bench
