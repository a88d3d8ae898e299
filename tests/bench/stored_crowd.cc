#include "tests/bench/stored_crowd.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "steadystate/client.h"
#include "tests/bench/server_process.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

// Bytes of all files below a directory.
uint64_t BytesBelow(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) bytes += entry.file_size(error);
  }
  return bytes;
}

double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

void PutWakes(nlohmann::json& row, const std::string& name,
              const Samples& wakes) {
  row[name + "_wakes"] = wakes.size();
  row[name + "_p50_ms"] = wakes.Quantile(0.5);
  row[name + "_p99_ms"] = wakes.Quantile(0.99);
}

// The trial, one part after the other.
class StoredCrowd {
 public:
  explicit StoredCrowd(const StoredCrowdOptions& options) : options_(options) {}

  absl::Status Run() {
    STEADYSTATE_RETURN_IF_ERROR(Start("empty_start_seconds"));
    row_["empty_resident_gib"] = Gib(server_->ResidentBytes());
    STEADYSTATE_RETURN_IF_ERROR(Fill());
    STEADYSTATE_RETURN_IF_ERROR(Wake("first", 1));
    row_["written_gib"] = Gib(server_->WrittenBytes());
    absl::Status stopped;
    row_["stop_seconds"] = TimeOnce([&] { stopped = server_->Stop(); });
    STEADYSTATE_RETURN_IF_ERROR(stopped);
    row_["disk_gib"] = Gib(BytesBelow(options_.directory));
    STEADYSTATE_RETURN_IF_ERROR(Start("start_seconds"));
    const uint64_t stored = server_->ResidentBytes();
    row_["stored_resident_gib"] = Gib(stored);
    STEADYSTATE_RETURN_IF_ERROR(Wake("second", 2));
    STEADYSTATE_RETURN_IF_ERROR(crowd_->StepChecked().status());
    std::fprintf(stderr, "replaying\n");
    STEADYSTATE_ASSIGN_OR_RETURN(const size_t differing,
                                 crowd_->ReplayDiffering());
    row_["checked"] = options_.crowd.checked;
    row_["differing"] = differing;
    return absl::OkStatus();
  }

  nlohmann::json row() const { return row_; }

 private:
  absl::Status Start(const char* name) {
    std::vector<std::string> flags = options_.flags;
    flags.insert(flags.end(), {absl::StrCat("--store=", options_.directory),
                               "--store_budget=64TiB", "--session_ttl=24h",
                               "--hibernate_after=inf", "--drain_budget=1h"});
    server_.reset();
    absl::Status status;
    row_[name] = TimeOnce([&] {
      auto server = ServerProcess::Start(options_.server, flags);
      status = server.status();
      if (server.ok()) server_ = *std::move(server);
    });
    STEADYSTATE_RETURN_IF_ERROR(status);
    std::fprintf(stderr, "ready after %.2f s\n", row_[name].get<double>());
    STEADYSTATE_ASSIGN_OR_RETURN(client::Client client,
                                 client::Client::Connect(server_->address()));
    if (crowd_ == nullptr) {
      crowd_ =
          std::make_unique<SessionCrowd>(std::move(client), options_.crowd);
    } else {
      crowd_->Reconnect(std::move(client));
    }
    return absl::OkStatus();
  }

  absl::Status Fill() {
    const auto sessions = static_cast<double>(options_.crowd.sessions);
    absl::Status status;
    row_["creates_per_second"] =
        sessions / TimeOnce([&] { status = crowd_->Create(); });
    STEADYSTATE_RETURN_IF_ERROR(status);
    std::fprintf(stderr, "%.0f created a second\n",
                 row_["creates_per_second"].get<double>());
    row_["steps_per_second"] = sessions *
                               static_cast<double>(options_.crowd.steps) /
                               TimeOnce([&] { status = crowd_->Step(); });
    STEADYSTATE_RETURN_IF_ERROR(status);
    std::fprintf(stderr, "%.0f stepped a second\n",
                 row_["steps_per_second"].get<double>());
    row_["resident_gib"] = Gib(server_->ResidentBytes());
    return absl::OkStatus();
  }

  absl::Status Wake(const std::string& name, uint64_t seed) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const Samples wakes,
        crowd_->StepAtRandom(
            {.steps = options_.wakes, .seed = options_.crowd.seed + seed}));
    PutWakes(row_, name, wakes);
    std::fprintf(stderr, "%zu woken\n", wakes.size());
    return absl::OkStatus();
  }

  const StoredCrowdOptions& options_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<SessionCrowd> crowd_;
  nlohmann::json row_;
};

}  // namespace

absl::StatusOr<nlohmann::json> MeasureStoredCrowd(
    const StoredCrowdOptions& options) {
  StoredCrowd crowd(options);
  STEADYSTATE_RETURN_IF_ERROR(crowd.Run());
  nlohmann::json row = crowd.row();
  row["sessions"] = options.crowd.sessions;
  row["resident"] = options.resident;
  // Of the server that has just read what describes all of them.
  row["bytes_of_a_stored_session"] =
      (row["stored_resident_gib"].get<double>() -
       row["empty_resident_gib"].get<double>()) *
      (1 << 30) / static_cast<double>(options.crowd.sessions);
  return row;
}

std::vector<Column> StoredCrowdColumns() {
  return {{"sessions", "sessions"},
          {"resident", "in memory"},
          {"creates_per_second", "creates/s", 0},
          {"steps_per_second", "steps/s", 0},
          {"first_p50_ms", "wake p50, ms", 2},
          {"first_p99_ms", "p99", 2},
          {"second_p50_ms", "after the start p50, ms", 2},
          {"second_p99_ms", "p99", 2},
          {"disk_gib", "on disk, GiB", 2},
          {"written_gib", "written, GiB", 2},
          {"resident_gib", "RSS, GiB", 2},
          {"bytes_of_a_stored_session", "RSS of a stored one, bytes", 0},
          {"stop_seconds", "end, s", 1},
          {"empty_start_seconds", "start with none, s", 2},
          {"start_seconds", "with all, s", 2},
          {"checked", "replayed alone"},
          {"differing", "differing"}};
}

}  // namespace steadystate::bench
