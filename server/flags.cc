#include "server/flags.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/options/completion.h"
#include "client/options/help.h"
#include "client/options/manual.h"
#include "client/options/options.h"
#include "client/options/program.h"
#include "server/base/byte_size.h"
#include "server/base/listener.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/checkpoint/config.h"
#include "server/engine/validate.h"
#include "server/flag_table.h"
#include "server/session/session_id.h"

namespace steadystate {
namespace {

using client::OptionTable;

constexpr size_t kMaxThreads = 1024;

// What flags hold that are not given.
Flags Defaults() {
  Flags flags;
  flags.server.listen = "127.0.0.1:50051";
  flags.metrics_listen = "127.0.0.1:9464";
  flags.engine.durability = Durability::kLog;
  flags.engine.threads = 0;
  flags.engine.prefill_chunk_rows = 0;
  flags.drain_lag = absl::ZeroDuration();
  flags.drain_timeout = absl::Seconds(5);
  flags.drain_budget = absl::Seconds(30);
  return flags;
}

// What is asked of the program about itself.
struct Questions {
  bool help = false;
  bool version = false;
  bool man = false;
  std::string completion;
};

OptionTable Table(Flags& flags, Questions& questions) {
  OptionTable table = FlagTable(flags);
  table.push_back({"help", "", "Prints this.", &questions.help, 'h'});
  table.push_back({"version", "", "Prints the version.", &questions.version});
  table.push_back(
      {"man", "", "Prints the manual page, for man(1).", &questions.man});
  table.push_back(
      {"completion", client::kShells,
       "Prints a script with which a shell completes these flags, as in source "
       "<(steadystate-server --completion bash).",
       &questions.completion});
  return table;
}

client::Program ThisProgram(OptionTable table) {
  constexpr absl::string_view kDescription =
      "Serves a linear-attention language model over gRPC. When it is ready it "
      "prints one line to standard output:\n"
      "  listening grpc=HOST:PORT metrics=HOST:PORT\n"
      "(metrics=off if they are not served.) Logs go to standard error. "
      "SIGTERM "
      "and SIGINT end it in order, the second of them at once; before it is "
      "ready the first does.\n"
      "Flags are written --name value or --name=value, '-' and '_' in names "
      "being the same.";
  return {.name = "steadystate-server",
          .version = kVersion,
          .summary = "serves a linear-attention language model over gRPC",
          .description = kDescription,
          .commands = {{{.name = "",
                         .arguments = "--model DIRECTORY",
                         .summary = "",
                         .description = kDescription,
                         .examples =
                             "  steadystate-server --model deploy/models/demo\n"
                             "  steadystate-server --model DIRECTORY "
                             "--state_memory 16GiB --store DIRECTORY\n"},
                        std::move(table)}},
          .exit_codes = {{"0", "after SIGTERM or SIGINT"},
                         {"143, 130", "after a second of them"},
                         {"1",
                          "the model cannot be loaded, an address not be had, "
                          "or the end is not orderly: calls did not end, or "
                          "sessions are not in the store"},
                         {"2", "wrong flags"}},
          .environment = {}};
}

// What is to be printed in place of serving, if anything.
absl::StatusOr<std::optional<std::string>> Answered(const Questions& questions,
                                                    OptionTable table) {
  if (questions.version) {
    return absl::StrCat("steadystate-server ", kVersion, "\n");
  }
  const client::Program program = ThisProgram(std::move(table));
  if (questions.man) return client::FormatManual(program);
  if (!questions.completion.empty()) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        std::string script,
        client::FormatCompletion(program, questions.completion));
    return script;
  }
  if (!questions.help) return std::nullopt;
  return absl::StrCat(client::FormatHelp(program, program.commands[0]),
                      "\nExit codes:\n",
                      client::FormatMeanings(program.exit_codes));
}

// Words that are not flags.
absl::Status CheckOthers(const std::vector<std::string>& others,
                         const OptionTable& table) {
  if (others.empty()) return absl::OkStatus();
  std::vector<absl::string_view> names;
  for (const client::Option& option : table) names.push_back(option.name);
  return absl::InvalidArgumentError(
      absl::StrCat("'", others[0], "' is not a flag, which begins with --",
                   client::DidYouMean(others[0], names, "--"), "; see --help"));
}

// Before 0 becomes what it stands for.
absl::Status CheckThreads(size_t threads) {
  if (threads <= kMaxThreads) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--threads is ", threads, "; it must be in [0, ",
                   kMaxThreads, "], 0 being as many as there are processors"));
}

absl::Status CheckDrain(absl::string_view name, absl::Duration time) {
  if (time >= absl::ZeroDuration() && time <= absl::Hours(1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--", name, " is ",
                                                 absl::FormatDuration(time),
                                                 "; it must be in [0s, 1h]"));
}

absl::StatusOr<HostPort> ReadAddress(absl::string_view name,
                                     const std::string& text) {
  const absl::StatusOr<HostPort> address = ParseHostPort(text);
  if (address.ok()) return address;
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, ": ", address.status().message(),
                   name == "metrics_listen" ? "; off: no metrics" : ""));
}

absl::Status CheckAddresses(const Flags& flags) {
  STEADYSTATE_ASSIGN_OR_RETURN(const HostPort grpc,
                               ReadAddress("listen", flags.server.listen));
  if (!flags.metrics_listen.has_value()) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const HostPort metrics,
      ReadAddress("metrics_listen", *flags.metrics_listen));
  if (grpc.port == 0 || grpc.port != metrics.port ||
      grpc.host != metrics.host) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--listen and --metrics_listen are both ",
                   flags.server.listen, ": give each a port of its own"));
}

// What the model's loading would come before.
absl::Status CheckStore(const Flags& flags) {
  if (flags.store.empty() && !flags.needs_store.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", flags.needs_store,
        " needs a store: give --store DIRECTORY as well, or leave it out, and "
        "sessions are in memory only"));
  }
  std::error_code error;
  if (flags.store.empty() || !std::filesystem::exists(flags.store, error) ||
      std::filesystem::is_directory(flags.store, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--store is ", flags.store, ", which is not a directory"));
}

// What the model takes is known when it is loaded; what a session remembers is
// charged in any case.
absl::Status CheckBudget(const EngineOptions& engine) {
  const uint64_t least = engine.history * sizeof(int32_t);
  if (engine.state_memory_bytes >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--state_memory is ", UnparseByteSize(engine.state_memory_bytes),
      "; the ", engine.history, " tokens that a session remembers (--history) ",
      "take ", UnparseByteSize(least), " of it, and its state comes on top"));
}

absl::Status Check(const Flags& flags) {
  if (flags.model.path.empty()) {
    return absl::InvalidArgumentError(
        "--model is missing: give the directory of a checkpoint");
  }
  const std::string& version = flags.model.transformers_version;
  if (!version.empty() && !ParseLibraryVersion(version).has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--transformers_version is '", version,
                     "'; it must be a version such as 4.57.6"));
  }
  const absl::Duration ttl = flags.engine.session_ttl;
  if (!ValidateSessionTtl(ttl).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--session_ttl is ", absl::FormatDuration(ttl),
                     "; it must be in [", absl::FormatDuration(kMinSessionTtl),
                     ", ", absl::FormatDuration(kMaxSessionTtl), "]"));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_lag", flags.drain_lag));
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_timeout", flags.drain_timeout));
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_budget", flags.drain_budget));
  STEADYSTATE_RETURN_IF_ERROR(CheckAddresses(flags));
  STEADYSTATE_RETURN_IF_ERROR(CheckStore(flags));
  STEADYSTATE_RETURN_IF_ERROR(
      ValidateEngineOptions(flags.engine, !flags.store.empty()));
  STEADYSTATE_RETURN_IF_ERROR(CheckBudget(flags.engine));
  return ValidateServerOptions(flags.server);
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags = Defaults();
  Questions questions;
  OptionTable table = Table(flags, questions);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::vector<std::string> others,
      client::ParseOptions(table,
                           std::vector<std::string>(argv + 1, argv + argc)));
  STEADYSTATE_RETURN_IF_ERROR(CheckOthers(others, table));
  STEADYSTATE_ASSIGN_OR_RETURN(flags.text,
                               Answered(questions, std::move(table)));
  if (flags.text.has_value()) return flags;
  STEADYSTATE_RETURN_IF_ERROR(CheckThreads(flags.engine.threads));
  if (flags.engine.threads == 0) flags.engine.threads = UsableCpus();
  flags.model.threads = flags.engine.threads;
  STEADYSTATE_RETURN_IF_ERROR(Check(flags));
  return flags;
}

}  // namespace steadystate
