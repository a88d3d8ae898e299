// `steadystate-bench engine`: decoding and prefill in this process, through the
// engine and without any RPC, beside what memory allows.

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/command.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/environment.h"
#include "tests/bench/model_source.h"
#include "tests/bench/number_list.h"

namespace steadystate::bench {
namespace {

constexpr size_t kMaxSessions = 1000000;
constexpr size_t kMaxPrompt = size_t{1} << 20;

class EngineCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  absl::StatusOr<nlohmann::json> Decode(
      const std::shared_ptr<const Model>& model, size_t sessions,
      const RunOptions& run, Bandwidth& bandwidth) const;
  absl::StatusOr<nlohmann::json> Prefill(
      const std::shared_ptr<const Model>& model, size_t tokens,
      const RunOptions& run) const;
  Section LimitsSection(const Bandwidth& bandwidth) const;

  ModelSource source_{"mamba2-370m"};
  std::vector<size_t> sessions_;
  std::vector<size_t> prompts_;
  std::optional<uint64_t> behind_option_;
  size_t behind_ = 0;
  bool no_decode_ = false;
  bool no_prefill_ = false;
  absl::Duration duration_ = absl::Seconds(3);
};

CommandText EngineCommand::text() const {
  return {
      "engine", "Decode and prefill in this process, without RPC",
      "Decode: every session has a token in every batch; the time of a step, "
      "and the least that memory allows for it: bytes of weights and of what "
      "softmax attention keeps over read bandwidth plus bytes of states read "
      "and written over read+write bandwidth, both measured between the "
      "repetitions. Prefill: a prompt on "
      "a fresh session until the token after it is drawn.",
      "  steadystate-bench engine --shape mamba2-370m --sessions 1,8,32,128\n"
      "  steadystate-bench engine --model deploy/models/demo --no_prefill\n"};
}

client::OptionTable EngineCommand::options() {
  client::OptionTable table;
  source_.AppendTo(table);
  table.push_back({"sessions", "N,N,...",
                   "How many decode at once. Default 1,8,32,128.",
                   NumberList(&sessions_, 1, kMaxSessions)});
  table.push_back({"behind", "N",
                   "Tokens that each session has absorbed before it decodes. "
                   "Default 0.",
                   &behind_option_});
  table.push_back({"prompt", "N,N,...", "Tokens of a prompt. Default 512.",
                   NumberList(&prompts_, 1, kMaxPrompt)});
  table.push_back({"no_decode", "", "Measures prefill only.", &no_decode_});
  table.push_back({"no_prefill", "", "Measures decode only.", &no_prefill_});
  table.push_back({"duration", "DURATION",
                   "Of each repetition of decoding. Default 3s.", &duration_});
  return table;
}

absl::Status EngineCommand::Check(const RunOptions& run) {
  STEADYSTATE_RETURN_IF_ERROR(source_.Check(run));
  if (no_decode_ && no_prefill_) {
    return absl::InvalidArgumentError(
        "--no_decode and --no_prefill leave nothing to measure");
  }
  behind_ = behind_option_.value_or(0);
  if (behind_ > kMaxPrompt) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--behind is ", behind_, "; it must be at most ", kMaxPrompt));
  }
  using Sizes = std::vector<size_t>;
  if (sessions_.empty()) sessions_ = run.Unless<Sizes>({1, 4}, {1, 8, 32, 128});
  if (prompts_.empty()) prompts_ = run.Unless<Sizes>({33}, {512});
  if (run.quick) duration_ = absl::Milliseconds(10);
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> EngineCommand::Decode(
    const std::shared_ptr<const Model>& model, size_t sessions,
    const RunOptions& run, Bandwidth& bandwidth) const {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto engine,
      BenchEngine::Create(model, sessions, source_.engine_options()));
  const double seconds = absl::ToDoubleSeconds(duration_);
  const double weights = StepWeightBytes(*model);
  const StateLayout& layout = model->state_layout();
  const double states =
      static_cast<double>(2 * sessions * layout.fixed_bytes());
  // What softmax attention reads; sessions grow while they are measured, and
  // this is where they begin.
  const double cache =
      static_cast<double>(sessions * behind_ * layout.token_bytes());
  Samples steps;
  Samples rates;
  Samples shares;
  for (size_t i = 0; i < run.repetitions; ++i) {
    const Bandwidth now = MeasureBandwidth(
        source_.threads(), run.Unless(size_t{1} << 20, size_t{512} << 20), 3);
    bandwidth.read.Append(now.read);
    bandwidth.read_write.Append(now.read_write);
    STEADYSTATE_ASSIGN_OR_RETURN(
        const auto load, DecodeLoad::Start(engine->engine(), sessions,
                                           DecodeCall::kGenerate, behind_));
    STEADYSTATE_RETURN_IF_ERROR(load->Measure(seconds / 10, 2).status());
    STEADYSTATE_ASSIGN_OR_RETURN(const DecodeTimes times,
                                 load->Measure(seconds, 5));
    steps.Append(times.steps);
    rates.Add(times.tokens_per_second());
    const double least = (weights + cache) / now.read.Median() +
                         states / now.read_write.Median();
    shares.Add(least / times.steps.Median());
  }
  nlohmann::json row = {{"sessions", sessions},
                        {"behind", behind_},
                        {"weight_bytes", weights},
                        {"state_bytes_moved", states},
                        {"cache_bytes_read", cache}};
  Put(row, "tokens_per_second", rates);
  Put(row, "step_ms", steps.Times(1e3));
  row["limit_ms"] = 1e3 * ((weights + cache) / bandwidth.read.Median() +
                           states / bandwidth.read_write.Median());
  Put(row, "limit_over_measured", shares);
  return row;
}

absl::StatusOr<nlohmann::json> EngineCommand::Prefill(
    const std::shared_ptr<const Model>& model, size_t tokens,
    const RunOptions& run) const {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto engine,
      BenchEngine::Create(model, 1, source_.engine_options()));
  STEADYSTATE_RETURN_IF_ERROR(
      TimePrompt(engine->engine(), tokens, run.seed).status());
  Samples times;
  for (size_t i = 0; i < run.repetitions; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const double seconds,
        TimePrompt(engine->engine(), tokens, run.seed + i));
    times.Add(seconds);
  }
  nlohmann::json row = {{"prompt_tokens", tokens}};
  Put(row, "tokens_per_second", times.Into(static_cast<double>(tokens)));
  Put(row, "time_to_first_token_ms", times.Times(1e3));
  return row;
}

Section EngineCommand::LimitsSection(const Bandwidth& bandwidth) const {
  nlohmann::json row = {{"threads", source_.threads()}};
  Put(row, "read_gb_per_second", bandwidth.read.Times(1 / kGiga));
  Put(row, "read_write_gb_per_second", bandwidth.read_write.Times(1 / kGiga));
  return {"bandwidth",
          "Memory bandwidth, DRAM",
          {{"threads", "threads"},
           {"read_gb_per_second", "read, GB/s", 1},
           {"read_write_gb_per_second", "read+write, GB/s", 1}},
          {row}};
}

absl::StatusOr<Report> EngineCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  Report report{"engine", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  Section decode{"decode",
                 "Decode",
                 {{"sessions", "sessions"},
                  {"tokens_per_second", "tokens/s", 1},
                  {"step_ms", "step, ms", 3},
                  {"limit_ms", "limit, ms", 3},
                  {"limit_over_measured", "limit / measured", 2}},
                 {}};
  Section prefill{"prefill",
                  "Prefill",
                  {{"prompt_tokens", "prompt"},
                   {"tokens_per_second", "tokens/s", 1},
                   {"time_to_first_token_ms", "first token, ms", 2}},
                  {}};
  Bandwidth bandwidth;
  for (const size_t tokens : no_prefill_ ? std::vector<size_t>() : prompts_) {
    STEADYSTATE_ASSIGN_OR_RETURN(prefill.rows.emplace_back(),
                                 Prefill(model, tokens, run));
  }
  for (const size_t sessions : no_decode_ ? std::vector<size_t>() : sessions_) {
    STEADYSTATE_ASSIGN_OR_RETURN(decode.rows.emplace_back(),
                                 Decode(model, sessions, run, bandwidth));
  }
  if (!no_decode_) {
    report.sections.push_back(LimitsSection(bandwidth));
    report.sections.push_back(std::move(decode));
  }
  if (!no_prefill_) report.sections.push_back(std::move(prefill));
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeEngineCommand() {
  return std::make_unique<EngineCommand>();
}

}  // namespace steadystate::bench
