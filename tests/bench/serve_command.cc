// `steadystate-bench serve`: a real server under a closed loop of streams from
// this machine, and on request the engine in this process in turns with it.

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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
#include "tests/bench/session_crowd.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::bench {
namespace {

// Longer than any run: a stream steps until it is cut.
constexpr uint64_t kEndless = 1000000000;

// So many sessions of a crowd share one's memory, where there is a store.
constexpr uint64_t kCrowdOverMemory = 8;

// One run of load on the server.
struct Served {
  client::LoadResult load;
  double server_cpus = 0;  // processors that the server kept busy
  Samples wakes_ms;        // of the crowd beside it
};

// A server, and sessions on it that are stepped at random beside the load.
struct Site {
  std::string store = "none";  // or the durability of what is in it
  std::unique_ptr<ServerProcess> server;
  std::unique_ptr<SessionCrowd> crowd;  // null: there is none
};

// What was found at a site, with its crowd at rest or stepped.
struct Case {
  Site* site = nullptr;
  bool busy = false;
  Samples rates, p50, p99, server_us, client_us, wakes_ms;
};

class ServeCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  absl::StatusOr<Site> MakeSite(std::vector<std::string> flags,
                                const Model& model, bool stores,
                                uint64_t seed) const;
  absl::Status Measure(Case& one, uint64_t seed) const;
  absl::StatusOr<Served> Serve(const Site& site, bool busy,
                               uint64_t seed) const;
  absl::StatusOr<Served> Load(const ServerProcess& server, uint64_t seed) const;
  absl::StatusOr<double> InProcess(BenchEngine& engine) const;
  nlohmann::json Row(const Case& one) const;
  std::vector<Column> Columns() const;

  ModelSource source_{"gla-340m"};
  std::string server_;
  client::LoadOptions load_;
  std::optional<uint64_t> sessions_;
  std::optional<uint64_t> streams_;
  bool compare_engine_ = false;
  std::optional<uint64_t> crowd_;
  std::optional<uint64_t> crowd_rate_;
  bool store_ = false;
  std::unique_ptr<TempDirectory> store_directory_;  // null: no store
};

CommandText ServeCommand::text() const {
  return {
      "serve", "A server over gRPC, with the client on the same machine",
      "Starts steadystate-server, keeps one step of every session under way "
      "through StreamStep streams, and reports tokens, latency between tokens "
      "and processor time on both sides. With --compare_engine the same steps "
      "are taken in this process without RPC, in turns with the server's. "
      "With --crowd other sessions are stepped at random beside these, in "
      "turns with none; with --store there are two servers in turns, one "
      "of which has a store, and memory for an eighth of the crowd: each "
      "step of the crowd writes a snapshot there and reads another.",
      "  steadystate-bench serve --shape gla-340m --compare_engine\n"
      "  steadystate-bench serve --model deploy/models/demo --sessions 4 "
      "--crowd 2000 --store\n"
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
  table.push_back(
      {"crowd", "N", "Other sessions, at least 8. Default none.", &crowd_});
  table.push_back({"crowd_rate", "N",
                   "At most so many steps of theirs a second. Default 50.",
                   &crowd_rate_});
  table.push_back({"store", "",
                   "Measures a server with a store, too: at durability log, "
                   "where temporary files are ($TMPDIR).",
                   &store_});
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
  if (crowd_.has_value() && *crowd_ < kCrowdOverMemory) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--crowd is ", *crowd_, "; it must be at least ", kCrowdOverMemory));
  }
  if (crowd_rate_ == 0 || (crowd_rate_.has_value() && !crowd_.has_value())) {
    return absl::InvalidArgumentError(
        "--crowd_rate is of --crowd, and at least 1");
  }
  return Validate(load_);
}

absl::StatusOr<Site> ServeCommand::MakeSite(std::vector<std::string> flags,
                                            const Model& model, bool stores,
                                            uint64_t seed) const {
  const SessionLayout layout = SessionLayoutOf(model, source_.engine_options());
  const uint64_t crowd = crowd_.value_or(0);
  const uint64_t in_memory = stores ? crowd / kCrowdOverMemory : crowd;
  flags.push_back(
      absl::StrCat("--state_memory=",
                   (load_.sessions + 1 + in_memory) * layout.charge_bytes()));
  Site site;
  if (stores) {
    site.store = "log";
    flags.insert(flags.end(),
                 {absl::StrCat("--store=", store_directory_->path(), "/store"),
                  "--store_budget=64TiB", "--hibernate_after=inf"});
  }
  STEADYSTATE_ASSIGN_OR_RETURN(site.server,
                               ServerProcess::Start(server_, flags));
  if (crowd == 0) return site;
  STEADYSTATE_ASSIGN_OR_RETURN(client::Client client,
                               client::Client::Connect(site.server->address()));
  site.crowd = std::make_unique<SessionCrowd>(
      std::move(client),
      CrowdOptions{.sessions = crowd,
                   .streams = 4,
                   .steps = 1,
                   .vocab_size = model.description().vocab_size,
                   .seed = seed});
  STEADYSTATE_RETURN_IF_ERROR(site.crowd->Create());
  STEADYSTATE_RETURN_IF_ERROR(site.crowd->Step());
  return site;
}

absl::StatusOr<Served> ServeCommand::Serve(const Site& site, bool busy,
                                           uint64_t seed) const {
  if (!busy) return Load(*site.server, seed);
  std::atomic<bool> stopped = false;
  const SessionCrowd::Walk walk = {
      .apart =
          absl::Seconds(1) / static_cast<int64_t>(crowd_rate_.value_or(50)),
      .stopped = &stopped,
      .seed = seed};
  auto steps = std::async(std::launch::async,
                          [&] { return site.crowd->StepAtRandom(walk); });
  absl::StatusOr<Served> served = Load(*site.server, seed);
  stopped = true;
  absl::StatusOr<Samples> wakes = steps.get();
  STEADYSTATE_RETURN_IF_ERROR(wakes.status());
  if (served.ok()) served->wakes_ms = *std::move(wakes);
  return served;
}

absl::StatusOr<Served> ServeCommand::Load(const ServerProcess& server,
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

std::vector<Column> ServeCommand::Columns() const {
  std::vector<Column> columns = {
      {"model", "model"},
      {"sessions", "sessions"},
      {"streams", "streams"},
      {"tokens_per_second", "tokens/s", 1},
      {"inter_token_p50_us", "p50, us", 0},
      {"inter_token_p99_us", "p99, us", 0},
      {"server_cpu_us_per_step", "server CPU/step, us", 1},
      {"client_cpu_us_per_step", "client CPU/step, us", 1}};
  if (crowd_.has_value() || store_) {
    columns.insert(columns.end(), {{"store", "store"},
                                   {"crowd", "beside"},
                                   {"wakes", "woken"},
                                   {"wake_p50_ms", "wake p50, ms", 1},
                                   {"wake_p99_ms", "wake p99, ms", 1},
                                   {"resident_mib", "RSS, MiB", 0},
                                   {"peak_mib", "peak, MiB", 0}});
  }
  if (compare_engine_) {
    columns.insert(columns.end(),
                   {{"engine_tokens_per_second", "in process, tokens/s", 1},
                    {"served_over_engine", "served / in process", 3}});
  }
  return columns;
}

double Microseconds(std::chrono::nanoseconds duration) {
  return 1e-3 * static_cast<double>(duration.count());
}

absl::Status ServeCommand::Measure(Case& one, uint64_t seed) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const Served served,
                               Serve(*one.site, one.busy, seed));
  const double rate = TokensPerSecond(served.load);
  one.rates.Add(rate);
  one.p50.Add(Microseconds(served.load.tally.inter_token.Quantile(0.5)));
  one.p99.Add(Microseconds(served.load.tally.inter_token.Quantile(0.99)));
  one.server_us.Add(1e6 * served.server_cpus / rate);
  one.client_us.Add(1e6 * served.load.client_cpus / rate);
  one.wakes_ms.Append(served.wakes_ms);
  return absl::OkStatus();
}

nlohmann::json ServeCommand::Row(const Case& one) const {
  nlohmann::json row = {{"model", source_.name()},
                        {"sessions", load_.sessions},
                        {"streams", load_.streams}};
  Put(row, "tokens_per_second", one.rates);
  Put(row, "inter_token_p50_us", one.p50);
  Put(row, "inter_token_p99_us", one.p99);
  Put(row, "server_cpu_us_per_step", one.server_us);
  Put(row, "client_cpu_us_per_step", one.client_us);
  if (!crowd_.has_value() && !store_) return row;
  constexpr double kMiB = 1 << 20;
  row["store"] = one.site->store;
  row["crowd"] = one.busy ? *crowd_ : 0;
  row["wakes"] = one.wakes_ms.size();
  if (!one.wakes_ms.empty()) {
    row["wake_p50_ms"] = one.wakes_ms.Quantile(0.5);
    row["wake_p99_ms"] = one.wakes_ms.Quantile(0.99);
  }
  const ServerProcess& server = *one.site->server;
  row["resident_mib"] = static_cast<double>(server.ResidentBytes()) / kMiB;
  row["peak_mib"] = static_cast<double>(server.PeakResidentBytes()) / kMiB;
  return row;
}

absl::StatusOr<Report> ServeCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  STEADYSTATE_ASSIGN_OR_RETURN(const auto flags, source_.ServerFlags(run));
  if (store_) store_directory_ = std::make_unique<TempDirectory>();
  std::vector<Site> sites;
  for (const bool stores : {false, true}) {
    if (stores && !store_) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(Site site,
                                 MakeSite(flags, *model, stores, run.seed));
    sites.push_back(std::move(site));
  }
  std::vector<Case> cases;
  for (Site& site : sites) {
    for (const bool busy : {false, true}) {
      if (busy && site.crowd == nullptr) continue;
      Case& one = cases.emplace_back();
      one.site = &site;
      one.busy = busy;
    }
  }
  std::unique_ptr<BenchEngine> engine;
  if (compare_engine_) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        engine,
        BenchEngine::Create(model, load_.sessions, source_.engine_options()));
  }
  Samples alone;
  for (size_t i = 0; i < run.repetitions; ++i) {
    for (Case& one : cases) {
      STEADYSTATE_RETURN_IF_ERROR(Measure(one, run.seed + i));
    }
    if (engine == nullptr) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(const double in_process, InProcess(*engine));
    alone.Add(in_process);
  }
  Report report{"serve", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  std::vector<nlohmann::json> rows;
  for (const Case& one : cases) rows.push_back(Row(one));
  if (engine != nullptr) {
    Put(rows.front(), "engine_tokens_per_second", alone);
    Put(rows.front(), "served_over_engine", Ratios(cases.front().rates, alone));
  }
  report.sections.push_back(
      {"serve", "Served over gRPC, closed loop", Columns(), std::move(rows)});
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeServeCommand() {
  return std::make_unique<ServeCommand>();
}

}  // namespace steadystate::bench
