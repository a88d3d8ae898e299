// `steadystate-bench sessions`: how many sessions live at once, in how much
// memory, and whether they notice each other.

#include <cstdio>
#include <optional>

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
  absl::StatusOr<nlohmann::json> Measure(const ServerProcess& server,
                                         const Model& model, uint64_t seed);

  ModelSource source_{"demo"};
  std::string server_;
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
      "byte for byte. Takes as much memory as the sessions do.",
      "  steadystate-bench sessions --model deploy/models/demo\n"
      "  steadystate-bench sessions --count 1000 --checked 100\n"};
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
  return CheckNoMore("--checked", *checked_, *count_);
}

absl::StatusOr<nlohmann::json> SessionsCommand::Measure(
    const ServerProcess& server, const Model& model, uint64_t seed) {
  STEADYSTATE_ASSIGN_OR_RETURN(const client::Client client,
                               client::Client::Connect(server.address()));
  SessionCrowd crowd(client, {.sessions = *count_,
                              .streams = *streams_,
                              .steps = *steps_,
                              .checked = *checked_,
                              .vocab_size = model.description().vocab_size,
                              .seed = seed});
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

absl::StatusOr<Report> SessionsCommand::Run(const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const auto model, source_.Load(run));
  STEADYSTATE_ASSIGN_OR_RETURN(auto flags, source_.ServerFlags(run));
  const SessionLayout layout =
      SessionLayoutOf(*model, source_.engine_options());
  flags.push_back("--session_ttl=24h");
  flags.push_back(
      absl::StrCat("--state_memory=", (*count_ + 1) * layout.charge_bytes()));
  STEADYSTATE_ASSIGN_OR_RETURN(const auto server,
                               ServerProcess::Start(server_, flags));
  STEADYSTATE_ASSIGN_OR_RETURN(nlohmann::json row,
                               Measure(*server, *model, run.seed));
  Report report{"sessions", DescribeEnvironment(), {}, {}};
  source_.Describe(*model, report.environment);
  report.sections.push_back({"sessions",
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
                             {std::move(row)}});
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeSessionsCommand() {
  return std::make_unique<SessionsCommand>();
}

}  // namespace steadystate::bench
