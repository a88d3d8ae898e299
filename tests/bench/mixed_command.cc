// `steadystate-bench mixed`: what long prompts cost the streams that are live
// meanwhile, and these the prompts.

#include <optional>

#include "server/base/status_macros.h"
#include "tests/bench/command.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/environment.h"
#include "tests/bench/model_source.h"

namespace steadystate::bench {
namespace {

class MixedCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  // Seconds.
  struct Times {
    Samples unloaded;  // between tokens, of every stream
    Samples loaded;
    Samples prompt_alone;  // of a prompt
    Samples prompt_beside;
  };

  absl::Status Measure(Engine& engine, uint64_t seed, Times& times) const;
  nlohmann::json Row(const Times& times) const;

  ModelSource source_{"mamba2-130m"};
  std::optional<uint64_t> sessions_;
  std::optional<uint64_t> prompt_;
  std::optional<uint64_t> prompts_;
};

CommandText MixedCommand::text() const {
  return {
      "mixed", "Live streams while long prompts arrive back to back",
      "In each repetition: streams alone, a prompt alone, then prompts one "
      "after the other beside the streams. Reports the time between tokens of "
      "the streams, and the speed of the prompts, with and without each other. "
      "In this process, through the engine.",
      "  steadystate-bench mixed --shape mamba2-130m\n"};
}

client::OptionTable MixedCommand::options() {
  client::OptionTable table;
  source_.AppendTo(table);
  table.push_back(
      {"sessions", "N", "Streams that are live. Default 16.", &sessions_});
  table.push_back(
      {"prompt", "N", "Tokens of a prompt. Default 8192.", &prompt_});
  table.push_back({"prompts", "N",
                   "Prompts beside the streams in each repetition. Default 2.",
                   &prompts_});
  return table;
}

absl::Status MixedCommand::Check(const RunOptions& run) {
  STEADYSTATE_RETURN_IF_ERROR(source_.Check(run));
  sessions_ = sessions_.value_or(run.Unless(2, 16));
  prompt_ = prompt_.value_or(run.Unless(200, 8192));
  prompts_ = prompts_.value_or(2);
  if (*sessions_ == 0 || *prompt_ == 0 || *prompts_ == 0) {
    return absl::InvalidArgumentError(
        "--sessions, --prompt and --prompts must be at least 1");
  }
  return absl::OkStatus();
}

absl::Status MixedCommand::Measure(Engine& engine, uint64_t seed,
                                   Times& times) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const double alone,
                               TimePrompt(engine, *prompt_, seed));
  times.prompt_alone.Add(alone);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto load,
      DecodeLoad::Start(engine, *sessions_, DecodeCall::kGenerate));
  STEADYSTATE_ASSIGN_OR_RETURN(const DecodeTimes unloaded,
                               load->Measure(alone, 20));
  times.unloaded.Append(unloaded.intervals);
  load->Begin();
  for (uint64_t i = 0; i < *prompts_; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(const double beside,
                                 TimePrompt(engine, *prompt_, seed));
    times.prompt_beside.Add(beside);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const DecodeTimes loaded, load->End());
  times.loaded.Append(loaded.intervals);
  return absl::OkStatus();
}

nlohmann::json MixedCommand::Row(const Times& times) const {
  nlohmann::json row = {{"model", source_.name()},
                        {"sessions", *sessions_},
                        {"prompt_tokens", *prompt_}};
  for (const auto& [name, samples] : {std::pair{"unloaded", &times.unloaded},
                                      std::pair{"loaded", &times.loaded}}) {
    const std::string prefix(name);
    row[prefix + "_p50_ms"] = 1e3 * samples->Quantile(0.5);
    row[prefix + "_p99_ms"] = 1e3 * samples->Quantile(0.99);
    row[prefix + "_max_ms"] = 1e3 * samples->Quantile(1);
    row[prefix + "_tokens"] = samples->size();
  }
  row["p99_ratio"] =
      times.loaded.Quantile(0.99) / times.unloaded.Quantile(0.99);
  const auto tokens = static_cast<double>(*prompt_);
  Put(row, "prefill_alone_tokens_per_second", times.prompt_alone.Into(tokens));
  Put(row, "prefill_beside_tokens_per_second",
      times.prompt_beside.Into(tokens));
  row["prefill_ratio"] =
      times.prompt_alone.Median() / times.prompt_beside.Median();
  return row;
}

absl::StatusOr<Report> MixedCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto engine,
      BenchEngine::Create(model, *sessions_, source_.engine_options()));
  STEADYSTATE_RETURN_IF_ERROR(
      TimePrompt(engine->engine(), *prompt_, run.seed).status());
  Times times;
  for (size_t i = 0; i < run.repetitions; ++i) {
    STEADYSTATE_RETURN_IF_ERROR(Measure(engine->engine(), run.seed + i, times));
  }
  Report report{"mixed", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  report.sections.push_back(
      {"mixed",
       "Streams beside prompts that arrive back to back",
       {{"model", "model"},
        {"sessions", "streams"},
        {"prompt_tokens", "prompt"},
        {"unloaded_p99_ms", "p99 alone, ms", 2},
        {"loaded_p99_ms", "p99 beside, ms", 2},
        {"p99_ratio", "ratio", 2},
        {"prefill_alone_tokens_per_second", "prefill alone, tokens/s", 0},
        {"prefill_beside_tokens_per_second", "beside, tokens/s", 0},
        {"prefill_ratio", "ratio", 2}},
       {Row(times)}});
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeMixedCommand() {
  return std::make_unique<MixedCommand>();
}

}  // namespace steadystate::bench
