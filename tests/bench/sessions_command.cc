// `steadystate-bench sessions`: how many sessions live at once, in how much
// memory, and whether they notice each other.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/session/session_state.h"
#include "steadystate/client.h"
#include "tests/bench/command.h"
#include "tests/bench/environment.h"
#include "tests/bench/model_source.h"
#include "tests/bench/server_process.h"
#include "tests/bench/session_crowd.h"
#include "tests/bench/stopwatch.h"
#include "tests/bench/stored_crowd.h"

namespace steadystate::bench {
namespace {

constexpr size_t kMaxStreams = 1024;

class SessionsCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  CrowdOptions Crowd(const Model& model, uint64_t seed) const;
  absl::StatusOr<nlohmann::json> Measure(const ServerProcess& server,
                                         const Model& model, uint64_t seed);
  absl::StatusOr<Section> RunInMemory(const Model& model,
                                      std::vector<std::string> flags,
                                      uint64_t seed);
  absl::StatusOr<Section> RunStored(const Model& model,
                                    std::vector<std::string> flags,
                                    uint64_t seed);

  ModelSource source_{"demo"};
  std::string server_;
  std::optional<std::string> store_;
  std::optional<uint64_t> resident_;
  std::optional<uint64_t> wakes_;
  std::optional<uint32_t> history_;
  std::optional<uint64_t> count_;
  std::optional<uint64_t> streams_;
  std::optional<uint64_t> steps_;
  std::optional<uint64_t> checked_;
};

CommandText SessionsCommand::text() const {
  return {
      "sessions", "Live sessions on one server: count, memory, independence",
      "Starts steadystate-server, makes --count sessions, steps each --steps "
      "times over --streams streams in random order, and compares the memory "
      "that the server has with the exact bytes of the states. Then --checked "
      "of the sessions are replayed, each alone, and their logits compared "
      "byte for byte. Takes as much memory as the sessions do. With --store "
      "only --resident of them are in memory at once; --wakes of them are "
      "stepped at random, one after the other, before the server is ended in "
      "order and started anew, and after that.",
      "  steadystate-bench sessions --model deploy/models/demo\n"
      "  steadystate-bench sessions --count 1000 --checked 100\n"
      "  steadystate-bench sessions --shape gla-tiny --history 64 --store "
      "/var/tmp/store --count 500000 --resident 50000 --steps 2\n"};
}

client::OptionTable SessionsCommand::options() {
  client::OptionTable table;
  source_.AppendTo(table);
  table.push_back(
      {"count", "N", "Sessions that live at once. Default 100000.", &count_});
  table.push_back(
      {"streams", "N", "Streams that carry them. Default 64.", &streams_});
  table.push_back(
      {"steps", "N", "Steps of each session. Default 10.", &steps_});
  table.push_back({"checked", "N",
                   "Sessions that are replayed alone. Default 1000.",
                   &checked_});
  table.push_back(
      {"history", "N", "As the server's flag. Default: its own.", &history_});
  table.push_back({"store", "DIR",
                   "Where the server keeps them; it must not be there, or be "
                   "empty, and stays.",
                   &store_});
  table.push_back({"resident", "N",
                   "With --store: sessions that there is memory for. Default: "
                   "a tenth of --count.",
                   &resident_});
  table.push_back({"wakes", "N",
                   "With --store: steps at random, twice. Default 10000.",
                   &wakes_});
  table.push_back({"server", "FILE",
                   "The server. Default: the steadystate-server beside this "
                   "program.",
                   &server_});
  return table;
}

absl::Status CheckAtLeastOne(absl::string_view option, uint64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is 0; it must be at least 1"));
}

absl::Status CheckNoMore(absl::string_view option, uint64_t value,
                         uint64_t count) {
  if (value <= count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      option, " is ", value, "; it must not be more than --count, ", count));
}

// May a store be made there?
bool IsFree(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error)) return !directory.empty();
  return std::filesystem::is_empty(directory, error);
}

absl::Status SessionsCommand::Check(const RunOptions& run) {
  STEADYSTATE_RETURN_IF_ERROR(source_.Check(run));
  STEADYSTATE_RETURN_IF_ERROR(ServerProcess::Check(server_));
  count_ = count_.value_or(run.Unless(50, 100000));
  streams_ = streams_.value_or(run.Unless(4, 64));
  steps_ = steps_.value_or(10);
  checked_ = checked_.value_or(run.Unless(10, 1000));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("--count", *count_));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("--steps", *steps_));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("--streams", *streams_));
  if (*streams_ > kMaxStreams) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--streams is ", *streams_, "; it must be at most ", kMaxStreams));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckNoMore("--streams", *streams_, *count_));
  STEADYSTATE_RETURN_IF_ERROR(CheckNoMore("--checked", *checked_, *count_));
  if (!store_.has_value() && (resident_.has_value() || wakes_.has_value())) {
    return absl::InvalidArgumentError(
        "--resident and --wakes are of --store; give that, too");
  }
  resident_ = resident_.value_or(std::max<uint64_t>(*count_ / 10, 1));
  wakes_ = wakes_.value_or(run.Unless(50, 10000));
  STEADYSTATE_RETURN_IF_ERROR(CheckAtLeastOne("--resident", *resident_));
  STEADYSTATE_RETURN_IF_ERROR(CheckNoMore("--resident", *resident_, *count_));
  if (store_.has_value() && !IsFree(*store_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--store is '", *store_, "', which is there and not empty"));
  }
  return absl::OkStatus();
}

CrowdOptions SessionsCommand::Crowd(const Model& model, uint64_t seed) const {
  return {.sessions = *count_,
          .streams = *streams_,
          .steps = *steps_,
          .checked = *checked_,
          .vocab_size = model.description().vocab_size,
          .seed = seed};
}

absl::StatusOr<nlohmann::json> SessionsCommand::Measure(
    const ServerProcess& server, const Model& model, uint64_t seed) {
  STEADYSTATE_ASSIGN_OR_RETURN(client::Client client,
                               client::Client::Connect(server.address()));
  SessionCrowd crowd(std::move(client), Crowd(model, seed));
  const uint64_t empty = server.ResidentBytes();
  absl::Status status;
  const double created = TimeOnce([&] { status = crowd.Create(); });
  STEADYSTATE_RETURN_IF_ERROR(status);
  std::fprintf(stderr, "%zu sessions created\n", size_t{*count_});
  const double stepped = TimeOnce([&] { status = crowd.Step(); });
  STEADYSTATE_RETURN_IF_ERROR(status);
  const uint64_t full = server.ResidentBytes();
  std::fprintf(stderr, "all stepped; replaying\n");
  absl::StatusOr<size_t> differing = 0;
  const double replayed =
      TimeOnce([&] { differing = crowd.ReplayDiffering(); });
  STEADYSTATE_RETURN_IF_ERROR(differing.status());
  const uint64_t states = *count_ * model.state_layout().bytes();
  return nlohmann::json{
      {"model", source_.name()},
      {"sessions", *count_},
      {"streams", *streams_},
      {"steps", *count_ * *steps_},
      {"state_bytes", states},
      {"resident_bytes_before", empty},
      {"resident_bytes", full},
      {"resident_gib", static_cast<double>(full) / (1 << 30)},
      {"resident_over_states",
       static_cast<double>(full) / static_cast<double>(states)},
      {"steps_per_second", static_cast<double>(*count_ * *steps_) / stepped},
      {"seconds", created + stepped + replayed},
      {"checked", *checked_},
      {"differing", *differing}};
}

absl::StatusOr<Section> SessionsCommand::RunInMemory(
    const Model& model, std::vector<std::string> flags, uint64_t seed) {
  flags.push_back("--session_ttl=24h");
  STEADYSTATE_ASSIGN_OR_RETURN(const auto server,
                               ServerProcess::Start(server_, flags));
  STEADYSTATE_ASSIGN_OR_RETURN(nlohmann::json row,
                               Measure(*server, model, seed));
  return Section{"sessions",
                 "Live sessions on one server",
                 {{"model", "model"},
                  {"sessions", "live"},
                  {"streams", "streams"},
                  {"steps", "steps"},
                  {"steps_per_second", "steps/s", 0},
                  {"resident_gib", "RSS, GiB", 2},
                  {"resident_over_states", "RSS / states", 3},
                  {"checked", "replayed alone"},
                  {"differing", "differing"},
                  {"seconds", "s in all", 0}},
                 {std::move(row)}};
}

absl::StatusOr<Section> SessionsCommand::RunStored(
    const Model& model, std::vector<std::string> flags, uint64_t seed) {
  StoredCrowdOptions options{.server = server_,
                             .flags = std::move(flags),
                             .directory = *store_,
                             .resident = *resident_,
                             .wakes = *wakes_,
                             .crowd = Crowd(model, seed)};
  STEADYSTATE_ASSIGN_OR_RETURN(nlohmann::json row, MeasureStoredCrowd(options));
  row["model"] = source_.name();
  return Section{"stored",
                 "Sessions of one server, most of them in its store",
                 StoredCrowdColumns(),
                 {std::move(row)}};
}

absl::StatusOr<Report> SessionsCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  STEADYSTATE_ASSIGN_OR_RETURN(auto flags, source_.ServerFlags(run));
  EngineOptions engine = source_.engine_options();
  engine.history = history_.value_or(engine.history);
  flags.push_back(absl::StrCat("--history=", engine.history));
  const size_t in_memory = store_.has_value() ? *resident_ : *count_ + 1;
  flags.push_back(
      absl::StrCat("--state_memory=",
                   in_memory * SessionLayoutOf(*model, engine).charge_bytes()));
  Report report{"sessions", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  report.environment["history"] = engine.history;
  STEADYSTATE_ASSIGN_OR_RETURN(
      Section section, store_.has_value()
                           ? RunStored(*model, std::move(flags), run.seed)
                           : RunInMemory(*model, std::move(flags), run.seed));
  report.sections.push_back(std::move(section));
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeSessionsCommand() {
  return std::make_unique<SessionsCommand>();
}

}  // namespace steadystate::bench
