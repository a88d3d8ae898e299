// `steadystate-bench serve`: a real server under a closed loop of streams from
// this machine, and on request the engine in this process in turns with it.

#include <optional>

#include "absl/strings/str_cat.h"
#include "client/load/load.h"
#include "server/base/status_macros.h"
#include "server/session/session_state.h"
#include "steadystate/client.h"
#include "tests/bench/command.h"
#include "tests/bench/engine_load.h"
#include "tests/bench/environment.h"
#include "tests/bench/model_source.h"
#include "tests/bench/server_process.h"

namespace steadystate::bench {
namespace {

// Longer than any run: a stream steps until it is cut.
constexpr uint64_t kEndless = 1000000000;

// One run of load on the server.
struct Served {
  client::LoadResult load;
  double server_cpus = 0;  // processors that the server kept busy
};

class ServeCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  absl::StatusOr<Served> Serve(const ServerProcess& server,
                               uint64_t seed) const;
  absl::StatusOr<double> InProcess(BenchEngine& engine) const;

  ModelSource source_{"gla-340m"};
  std::string server_;
  client::LoadOptions load_;
  std::optional<uint64_t> sessions_;
  std::optional<uint64_t> streams_;
  bool compare_engine_ = false;
};

CommandText ServeCommand::text() const {
  return {
      "serve", "A server over gRPC, with the client on the same machine",
      "Starts steadystate-server, keeps one step of every session under way "
      "through StreamStep streams, and reports tokens, latency between tokens "
      "and processor time on both sides. With --compare_engine the same steps "
      "are taken in this process without RPC, in turns with the server's.",
      "  steadystate-bench serve --shape gla-340m --compare_engine\n"
      "  steadystate-bench serve --shape noop --streams 1\n"};
}

client::OptionTable ServeCommand::options() {
  client::OptionTable table;
  source_.AppendTo(table);
  table.push_back(
      {"sessions", "N", "Sessions that step. Default 64.", &sessions_});
  table.push_back({"streams", "N",
                   "Streams that carry them. Default: one for each session.",
                   &streams_});
  table.push_back({"duration", "DURATION",
                   "Of each repetition, a second of warm-up aside. Default "
                   "10s.",
                   &load_.duration});
  table.push_back({"compare_engine", "",
                   "Measures the engine in this process, too.",
                   &compare_engine_});
  table.push_back({"server", "FILE",
                   "The server. Default: the steadystate-server beside this "
                   "program.",
                   &server_});
  return table;
}

absl::Status ServeCommand::Check(const RunOptions& run) {
  STEADYSTATE_RETURN_IF_ERROR(source_.Check(run));
  STEADYSTATE_RETURN_IF_ERROR(ServerProcess::Check(server_));
  load_.sessions = sessions_.value_or(run.Unless(4, 64));
  load_.streams = streams_.value_or(load_.sessions);
  load_.prompt_tokens = 1;
  load_.generate_tokens = kEndless;
  load_.warmup = run.Unless(absl::Milliseconds(100), absl::Seconds(1));
  load_.drain = absl::ZeroDuration();
  if (run.quick) load_.duration = absl::Milliseconds(600);
  return Validate(load_);
}

absl::StatusOr<Served> ServeCommand::Serve(const ServerProcess& server,
                                           uint64_t seed) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const client::Client client,
                               client::Client::Connect(server.address()));
  client::LoadOptions options = load_;
  options.seed = seed;
  // Progress comes a few times a second: the first and the last time within the
  // window tell the server's use of processors.
  struct Moment {
    absl::Duration elapsed;
    double cpu_seconds;
  };
  std::optional<Moment> first;
  std::optional<Moment> last;
  const auto on_progress = [&](const client::LoadProgress& progress) {
    if (progress.created || progress.elapsed < options.warmup ||
        progress.elapsed > options.warmup + options.duration) {
      return;
    }
    last = Moment{progress.elapsed, server.CpuSeconds()};
    if (!first) first = last;
  };
  Served served;
  STEADYSTATE_ASSIGN_OR_RETURN(
      served.load, client::RunLoad(client, {}, options, on_progress));
  if (served.load.tally.failed > 0 || served.load.tally.drawn_tokens == 0) {
    return absl::InternalError("the server refused steps");
  }
  if (first && last->elapsed > first->elapsed) {
    served.server_cpus = (last->cpu_seconds - first->cpu_seconds) /
                         absl::ToDoubleSeconds(last->elapsed - first->elapsed);
  }
  return served;
}

absl::StatusOr<double> ServeCommand::InProcess(BenchEngine& engine) const {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto load,
      DecodeLoad::Start(engine.engine(), load_.sessions, DecodeCall::kStep));
  const double warmup = absl::ToDoubleSeconds(load_.warmup);
  STEADYSTATE_RETURN_IF_ERROR(load->Measure(warmup, 2).status());
  STEADYSTATE_ASSIGN_OR_RETURN(
      const DecodeTimes times,
      load->Measure(absl::ToDoubleSeconds(load_.duration), 5));
  return times.tokens_per_second();
}

double Microseconds(std::chrono::nanoseconds duration) {
  return 1e-3 * static_cast<double>(duration.count());
}

absl::StatusOr<Report> ServeCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  STEADYSTATE_ASSIGN_OR_RETURN(auto flags, source_.ServerFlags(run));
  const SessionLayout layout =
      SessionLayoutOf(*model, source_.engine_options());
  flags.push_back(absl::StrCat("--state_memory=",
                               (load_.sessions + 1) * layout.charge_bytes()));
  STEADYSTATE_ASSIGN_OR_RETURN(const auto server,
                               ServerProcess::Start(server_, flags));
  std::unique_ptr<BenchEngine> engine;
  if (compare_engine_) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        engine,
        BenchEngine::Create(model, load_.sessions, source_.engine_options()));
  }
  Samples rates, alone, p50, p99, server_us, client_us;
  for (size_t i = 0; i < run.repetitions; ++i) {
    STEADYSTATE_ASSIGN_OR_RETURN(const Served served,
                                 Serve(*server, run.seed + i));
    const double rate = TokensPerSecond(served.load);
    rates.Add(rate);
    p50.Add(Microseconds(served.load.tally.inter_token.Quantile(0.5)));
    p99.Add(Microseconds(served.load.tally.inter_token.Quantile(0.99)));
    server_us.Add(1e6 * served.server_cpus / rate);
    client_us.Add(1e6 * served.load.client_cpus / rate);
    if (engine == nullptr) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(const double in_process, InProcess(*engine));
    alone.Add(in_process);
  }
  nlohmann::json row = {{"model", source_.name()},
                        {"sessions", load_.sessions},
                        {"streams", load_.streams}};
  Put(row, "tokens_per_second", rates);
  Put(row, "inter_token_p50_us", p50);
  Put(row, "inter_token_p99_us", p99);
  Put(row, "server_cpu_us_per_step", server_us);
  Put(row, "client_cpu_us_per_step", client_us);
  if (engine != nullptr) {
    Put(row, "engine_tokens_per_second", alone);
    Put(row, "served_over_engine", Ratios(rates, alone));
  }
  Report report{"serve", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  report.sections.push_back(
      {"serve",
       "Served over gRPC, closed loop",
       {{"model", "model"},
        {"sessions", "sessions"},
        {"streams", "streams"},
        {"tokens_per_second", "tokens/s", 1},
        {"inter_token_p50_us", "p50, us", 0},
        {"inter_token_p99_us", "p99, us", 0},
        {"server_cpu_us_per_step", "server CPU/step, us", 1},
        {"client_cpu_us_per_step", "client CPU/step, us", 1},
        {"engine_tokens_per_second", "in process, tokens/s", 1},
        {"served_over_engine", "served / in process", 3}},
       {row}});
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeServeCommand() {
  return std::make_unique<ServeCommand>();
}

}  // namespace steadystate::bench
