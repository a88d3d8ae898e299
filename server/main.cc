// The server's process: flags, model, engine, listeners; then it waits for a
// signal and ends in order.
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "server/base/byte_size.h"
#include "server/base/clock.h"
#include "server/base/line_writer.h"
#include "server/base/listener.h"
#include "server/base/logging.h"
#include "server/base/memory_trimmer.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/engine/engine.h"
#include "server/flags.h"
#include "server/load_progress.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scrape_server.h"
#include "server/metrics/status_pages.h"
#include "server/model/model.h"
#include "server/rpc/server.h"
#include "server/session/numerics.h"
#include "server/session/session_store.h"
#include "server/stop_signal.h"
#include "server/store/rocks_store.h"

namespace steadystate {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// How long the end of the process waits for the reader of its output.
constexpr std::chrono::milliseconds kFlushTime{1000};

// Why the process ends: one plain line, whatever the log level.
int Fail(absl::string_view what, const absl::Status& status, int code) {
  // Makes room, if anybody reads.
  FlushLog(kFlushTime);
  LogPlain(absl::StrCat("steadystate-server: ", what, status.message(), "\n"));
  return code;
}

// For the one line that goes to standard output.
constexpr size_t kOutputBytes = 4096;

int WrongUsage(const absl::Status& status) {
  return Fail("", status, kExitUsage);
}

// What std::terminate was called for.
std::string Uncaught() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) {
      std::rethrow_exception(thrown);
    }
    return "terminated without an exception";
  } catch (const std::exception& error) {
    return absl::StrCat("uncaught exception: ", error.what());
  } catch (...) {
    return "uncaught exception of an unknown type";
  }
}

// A listener that runs out of descriptors does not recover.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    LogWarning("cannot raise the limit of open files");
  }
}

// Assertions of libraries log why they fail and abort at once; an exception
// that nobody catches says so straight to standard error, where nobody may be
// reading.
void FlushLogOnAbort() {
  std::set_terminate([] {
    LogPlain(absl::StrCat("steadystate-server: ", Uncaught(), "\n"));
    std::abort();
  });
  // The default action follows: abort() sees to it.
  signal(SIGABRT, [](int) { FlushLog(kFlushTime); });
}

void DescribeModel(const Model& model, absl::Duration load_time,
                   Metrics& metrics) {
  const ModelDescription& description = model.description();
  metrics.SetModelLoadDuration(load_time);
  metrics.SetModelInfo({.fingerprint = description.fingerprint,
                        .weight_dtype = description.linear.weight_dtype,
                        .state_dtype = model.state_layout().dtype(),
                        .isa = description.linear.isa,
                        .kernel_target = description.kernel_target,
                        .onednn_version = description.linear.onednn_version});
  for (const std::string& warning : description.warnings) {
    LogWarning("model", {{"warning", warning}});
  }
  for (const std::string& reading : description.readings) {
    LogWarning("model", {{"read", reading}});
  }
  LogInfo("model loaded", {{"id", description.id},
                           {"family", description.family},
                           {"parameters", description.parameters},
                           {"weight_dtype", description.linear.weight_dtype},
                           {"isa", description.linear.isa},
                           {"kernel_target", description.kernel_target},
                           {"fingerprint", description.fingerprint},
                           {"load_time", absl::FormatDuration(load_time)}});
}

void DescribeNumerics(const Model& model, const EngineOptions& options) {
  const absl::StatusOr<Numerics> numerics =
      NumericsOf(SessionLayoutOf(model, options), model.description(),
                 options.prefill_chunk_rows);
  const absl::StatusOr<std::string> fingerprint =
      numerics.ok() ? numerics->Fingerprint() : numerics.status();
  if (!fingerprint.ok()) {
    LogError("no numerics", {{"error", fingerprint.status().message()}});
    return;
  }
  LogInfo("numerics",
          {{"fingerprint", *fingerprint}, {"facts", numerics->ToString()}});
}

// Memory is taken when sessions come, and then it is too late to say so.
void WarnOfShortMemory(const EngineOptions& options) {
  const std::optional<uint64_t> usable = UsableMemory();
  if (!usable.has_value()) return;
  const uint64_t taken = std::min(AnonymousMemory(), *usable);
  if (options.state_memory_bytes <= *usable - taken) return;
  LogWarning("there is less memory than --state_memory allows sessions to take",
             {{"state_memory", FormatByteSize(options.state_memory_bytes)},
              {"taken_by_now", FormatByteSize(taken)},
              {"usable", FormatByteSize(*usable)},
              {"what_to_do",
               "lower --state_memory, or raise the limit of the container: a "
               "process that takes more is killed"}});
}

absl::StatusOr<std::shared_ptr<const Model>> LoadModel(ModelOptions options) {
  LoadProgress progress(
      Clock::Real(), [](int percent, absl::Duration since_start) {
        LogInfo("the model is being loaded",
                {{"percent", percent},
                 {"after", absl::FormatDuration(
                               absl::Trunc(since_start, absl::Seconds(1)))}});
      });
  options.progress = [&progress](uint64_t read, uint64_t all) {
    progress.Note(read, all);
  };
  return Model::Load(options);
}

// What fits, before anybody asks for it.
void DescribeSessions(const Model& model, const EngineOptions& options) {
  const uint64_t each = SessionLayoutOf(model, options).charge_bytes();
  LogInfo("sessions",
          {{"fit_in_memory", options.state_memory_bytes / each},
           {"bytes_of_one", each},
           {"state_memory", FormatByteSize(options.state_memory_bytes)},
           {"session_ttl", absl::FormatDuration(options.session_ttl)}});
  WarnOfShortMemory(options);
}

void DescribeChunks(const EngineOptions& given, const EngineOptions& used) {
  LogInfo("prompts are cut",
          {{"prefill_chunk_rows", used.prefill_chunk_rows},
           {"chosen_by", given.prefill_chunk_rows == 0 ? "hardware" : "flag"}});
}

std::string WithPort(const std::string& host_port, int port) {
  return absl::StrCat(host_port.substr(0, host_port.rfind(':')), ":", port);
}

// Says that the server is ready, waits for a signal, shuts down.
// `scrapes` is null if metrics are not served; `store_sessions` is called when
// nobody calls any more: are all stored that have to be?
int Serve(const Flags& flags, Server& server, const ScrapeServer* scrapes,
          const std::function<bool()>& store_sessions) {
  // Nobody may be reading.
  LineWriter output(STDOUT_FILENO, kOutputBytes);
  output.Write(absl::StrCat(
      "listening grpc=", WithPort(flags.server.listen, server.port()),
      " metrics=",
      scrapes == nullptr ? "off"
                         : WithPort(*flags.metrics_listen, scrapes->port()),
      "\n"));
  WaitForStopSignal();
  LogInfo("drain begins",
          {{"drain_lag", absl::FormatDuration(flags.drain_lag)},
           {"drain_timeout", absl::FormatDuration(flags.drain_timeout)}});
  output.Flush(kFlushTime);
  server.AnnounceShutdown(flags.drain_lag);
  const absl::Status ended = server.Shutdown(flags.drain_timeout);
  const bool stored = store_sessions();
  if (!ended.ok()) {
    Fail("shutdown was not orderly: ", ended, kExitFailure);
    FlushLog(kFlushTime);
    // Threads of gRPC still use what destructors would destroy.
    std::_Exit(kExitFailure);
  }
  return stored ? EXIT_SUCCESS : kExitFailure;
}

// Opens the store, if there is to be one; null if not.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenStore(const Flags& flags,
                                                        const Model& model) {
  if (flags.store.empty()) return nullptr;
  const ModelDescription& description = model.description();
  return RocksStore::Open({.directory = flags.store,
                           .model = description.id,
                           .fingerprint = description.fingerprint,
                           .file_system = nullptr,
                           .allow_damage = flags.allow_damaged_store});
}

// Says how long the end may take, while that can be changed.
void EstimateDrain(const Flags& flags, Engine& engine) {
  const absl::StatusOr<Engine::DrainEstimate> most = engine.EstimateDrain();
  if (!most.ok()) {
    LogWarning("not known how long storing sessions takes",
               {{"error", most.status().message()}});
    return;
  }
  const std::string takes =
      absl::FormatDuration(absl::Trunc(most->time, absl::Milliseconds(1)));
  const std::string budget = absl::FormatDuration(flags.drain_budget);
  LogInfo(
      "storing all sessions of a full memory",
      {{"bytes", most->bytes},
       {"bytes_per_second", absl::StrFormat("%.0f", most->bytes_per_second)},
       {"takes", takes},
       {"drain_budget", budget}});
  if (most->time <= flags.drain_budget) return;
  LogWarning("with a full memory the server ends before all is stored",
             {{"takes", takes},
              {"drain_budget", budget},
              {"what_to_do",
               "raise --drain_budget, and with it the time that the "
               "orchestrator leaves the server to end, or lower "
               "--state_memory"}});
}

// Nobody calls any more: what is in memory goes where it outlives the process.
// True if all of it does.
bool StoreSessions(const Flags& flags, Engine& engine) {
  const SteadyTime start = Clock::Real().Now();
  const std::optional<size_t> left = engine.StoreSessions(flags.drain_budget);
  const std::string took = absl::FormatDuration(Clock::Real().Now() - start);
  if (!left.has_value()) {
    Fail("", absl::UnavailableError("the store of sessions hangs"),
         kExitFailure);
    FlushLog(kFlushTime);
    // Its thread cannot be waited for.
    std::_Exit(kExitFailure);
  }
  if (*left == 0) {
    LogInfo("sessions stored", {{"took", took}});
  } else {
    LogError("sessions not stored",
             {{"sessions", *left},
              {"took", took},
              {"drain_budget", absl::FormatDuration(flags.drain_budget)}});
  }
  return *left == 0;
}

// The addresses that the server has taken; nobody can connect yet.
struct Addresses {
  Listener grpc;
  std::optional<Listener> metrics;  // absent: they are not served
};

// Takes the addresses before the model is loaded, which takes time.
absl::StatusOr<Addresses> TakeAddresses(const Flags& flags) {
  Addresses addresses;
  STEADYSTATE_ASSIGN_OR_RETURN(
      addresses.grpc, Bind(flags.server.listen, AnyAddress::kBothFamilies));
  if (flags.metrics_listen.has_value()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        addresses.metrics, Bind(*flags.metrics_listen, AnyAddress::kIpv4Only));
  }
  return addresses;
}

// Null if metrics are not to be served. `pages` outlives the result.
absl::StatusOr<std::unique_ptr<ScrapeServer>> StartScrapes(
    std::optional<Listener> listener, const StatusPages& pages) {
  if (!listener.has_value()) return nullptr;
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::unique_ptr<ScrapeServer> scrapes,
      ScrapeServer::Start(
          *std::move(listener),
          [&pages](absl::string_view path) { return pages.Get(path); }));
  LogInfo("metrics and health are served by HTTP", {{"port", scrapes->port()}});
  return scrapes;
}

int Run(const Flags& flags) {
  absl::StatusOr<Addresses> addresses = TakeAddresses(flags);
  if (!addresses.ok()) return Fail("", addresses.status(), kExitFailure);
  StatusPages pages;
  absl::StatusOr<std::unique_ptr<ScrapeServer>> scrapes =
      StartScrapes(std::move(addresses->metrics), pages);
  if (!scrapes.ok()) {
    return Fail("cannot serve metrics: ", scrapes.status(), kExitFailure);
  }
  // Before the model is loaded, which takes time.
  const absl::Status usable =
      flags.store.empty() ? absl::OkStatus() : RocksStore::Check(flags.store);
  if (!usable.ok()) {
    return Fail("cannot open the store: ", usable, kExitFailure);
  }
  const SteadyTime start = Clock::Real().Now();
  absl::StatusOr<std::shared_ptr<const Model>> model = LoadModel(flags.model);
  if (!model.ok()) {
    return Fail("cannot load the model: ", model.status(), kExitFailure);
  }
  Metrics metrics((*model)->description().id);
  pages.SetMetrics(metrics);
  DescribeModel(**model, Clock::Real().Now() - start, metrics);

  const absl::StatusOr<std::unique_ptr<SessionStore>> store =
      OpenStore(flags, **model);
  if (!store.ok()) {
    return Fail("cannot open the store: ", store.status(), kExitFailure);
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      flags.engine, *model, Clock::Real(), metrics, store->get());
  if (absl::IsUnavailable(engine.status()) ||
      absl::IsDataLoss(engine.status())) {
    return Fail("", engine.status(), kExitFailure);
  }
  if (!engine.ok()) return WrongUsage(engine.status());
  DescribeNumerics(**model, (*engine)->options());
  DescribeChunks(flags.engine, (*engine)->options());
  DescribeSessions(**model, (*engine)->options());
  if (*store != nullptr) EstimateDrain(flags, **engine);

  const MemoryTrimmer trimmer;
  // Calls may come from here on, and have to end in order.
  KeepFirstStopSignal();
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Start(
      flags.server, std::move(addresses->grpc), **engine, metrics);
  if (absl::IsInvalidArgument(server.status())) {
    return WrongUsage(server.status());
  }
  if (!server.ok()) {
    return Fail("cannot serve gRPC: ", server.status(), kExitFailure);
  }
  pages.SetHealth([&server] { return (*server)->health(); });
  const int code = Serve(flags, **server, scrapes->get(), [&] {
    return *store == nullptr || StoreSessions(flags, **engine);
  });
  // Ends before the server that it asks.
  scrapes->reset();
  return code;
}

int Main(int argc, char** argv) {
  // Distributions build Abseil with its checks: each lock that gRPC takes then
  // looks into a graph of all locks, under a lock of its own, and an order that
  // might deadlock would abort the process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  if (!flags.ok()) return WrongUsage(flags.status());
  if (flags->text.has_value()) {
    LetStopSignalsThrough();
    fputs(flags->text->c_str(), stdout);
    return EXIT_SUCCESS;
  }
  SetMinLogLevel(flags->log_level);
  SetLogFormat(flags->log_format);
  signal(SIGPIPE, SIG_IGN);
  // A limit to the size of files is an error of the write that meets it.
  signal(SIGXFSZ, SIG_IGN);
  StartStopSignals();
  RaiseDescriptorLimit();
  LogInfo("steadystate-server starts", {{"version", kVersion},
                                        {"model", flags->model.path},
                                        {"threads", flags->engine.threads}});
  return Run(*flags);
}

}  // namespace
}  // namespace steadystate

int main(int argc, char** argv) {
  steadystate::OpenStandardDescriptors();
  steadystate::StartLogThread();
  steadystate::FlushLogOnAbort();
  const int code = steadystate::Main(argc, argv);
  steadystate::FlushLog(steadystate::kFlushTime);
  return code;
}
