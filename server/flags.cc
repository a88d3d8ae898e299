#include "server/flags.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/byte_size.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/checkpoint/config.h"
#include "server/engine/validate.h"

namespace steadystate {
namespace {

// Types of flags, with the names that their values have on the command line.

struct ByteSize {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) {
    *error = std::string(bytes.status().message());
    return false;
  }
  size->bytes = *bytes;
  return true;
}

std::string AbslUnparseFlag(ByteSize size) { return absl::StrCat(size.bytes); }

struct WeightType {
  std::optional<DType> dtype;
};

bool AbslParseFlag(absl::string_view text, WeightType* type,
                   std::string* error) {
  if (text == "auto") {
    type->dtype = std::nullopt;
  } else if (text == Name(DType::kF32)) {
    type->dtype = DType::kF32;
  } else if (text == Name(DType::kBf16)) {
    type->dtype = DType::kBf16;
  } else if (text == Name(DType::kI8)) {
    type->dtype = DType::kI8;
  } else {
    *error = "it must be auto, f32, bf16 or int8";
    return false;
  }
  return true;
}

std::string AbslUnparseFlag(WeightType type) {
  return type.dtype.has_value() ? Name(*type.dtype) : "auto";
}

struct StateType {
  StateDType dtype = StateDType::kF32;
};

bool AbslParseFlag(absl::string_view text, StateType* type,
                   std::string* error) {
  for (const StateDType dtype :
       {StateDType::kF32, StateDType::kBf16, StateDType::kInt16}) {
    if (text == Name(dtype)) {
      type->dtype = dtype;
      return true;
    }
  }
  *error = "it must be f32, bf16 or int16";
  return false;
}

std::string AbslUnparseFlag(StateType type) {
  return std::string(Name(type.dtype));
}

struct DurabilityName {
  Durability durability = Durability::kLog;
};

constexpr const char* kDurabilities[] = {"none", "shutdown", "log", "sync"};

bool AbslParseFlag(absl::string_view text, DurabilityName* name,
                   std::string* error) {
  const auto* const found =
      std::find(std::begin(kDurabilities), std::end(kDurabilities), text);
  if (found == std::end(kDurabilities)) {
    *error = "it must be none, shutdown, log or sync";
    return false;
  }
  name->durability = static_cast<Durability>(found - kDurabilities);
  return true;
}

std::string AbslUnparseFlag(DurabilityName name) {
  return kDurabilities[static_cast<size_t>(name.durability)];
}

struct LogLevelName {
  LogLevel level = LogLevel::kInfo;
};

constexpr absl::string_view kLogLevels[] = {"debug", "info", "warning", "error",
                                            "off"};

bool AbslParseFlag(absl::string_view text, LogLevelName* name,
                   std::string* error) {
  const auto* const found =
      std::find(std::begin(kLogLevels), std::end(kLogLevels), text);
  if (found == std::end(kLogLevels)) {
    *error = "it must be debug, info, warning, error or off";
    return false;
  }
  name->level = static_cast<LogLevel>(found - std::begin(kLogLevels));
  return true;
}

std::string AbslUnparseFlag(LogLevelName name) {
  return std::string(kLogLevels[static_cast<size_t>(name.level)]);
}

}  // namespace
}  // namespace steadystate

ABSL_FLAG(std::string, model, "",
          "Required. Directory of the checkpoint: config.json and "
          "model.safetensors or its shards.");
ABSL_FLAG(std::string, listen, "127.0.0.1:50051",
          "HOST:PORT of the gRPC server. Port 0 picks a free one. There is no "
          "encryption: do not listen where untrusted peers are.");
ABSL_FLAG(std::string, metrics_listen, "127.0.0.1:9464",
          "HOST:PORT where http://HOST:PORT/metrics is served to Prometheus. "
          "Port 0 picks a free one.");
ABSL_FLAG(steadystate::ByteSize, state_memory,
          steadystate::ByteSize{uint64_t{4} << 30},
          "Memory for the states of all sessions, for instance 4GiB. At least "
          "one session's. Default 4GiB.");
ABSL_FLAG(std::string, store, "",
          "Directory in which sessions are kept while they are not in memory, "
          "and when the server is not running; made if it is not there. Each "
          "model and each server needs its own. Empty: sessions are in memory "
          "only.");
ABSL_FLAG(bool, allow_damaged_store, false,
          "With a store: go on with what can be read of one that is damaged. "
          "What cannot is lost; keep a copy before.");
ABSL_FLAG(steadystate::DurabilityName, durability,
          steadystate::DurabilityName{},
          "With a store: what of sessions that do not say outlives the server: "
          "none; shutdown: all that they are when it ends in order; log: all "
          "that has been answered, however it ends; sync: and a loss of power. "
          "Default log.");
ABSL_FLAG(absl::Duration, log_sync_interval, absl::Seconds(1),
          "With a store: how much of what was answered a loss of power may "
          "cost sessions of durability log, 10ms to 1h.");
ABSL_FLAG(absl::Duration, max_replay, absl::Seconds(1),
          "With a store: how long it may take to compute again what a session "
          "of durability log or sync has absorbed since its snapshot, 1ms to "
          "1h; then another one is taken.");
ABSL_FLAG(
    bool, allow_other_numerics, false,
    "With a store: also go on with sessions of a server that was killed "
    "and that computed other bits, of another version or on another CPU.");
ABSL_FLAG(steadystate::ByteSize, store_budget,
          steadystate::ByteSize{uint64_t{64} << 30},
          "What all sessions together may take in the store, for instance "
          "500GiB. Default 64GiB.");
ABSL_FLAG(absl::Duration, hibernate_after, absl::Minutes(5),
          "With a store: how long a session may be idle before its state "
          "leaves memory, at least 1s; inf: only when others need the memory.");
ABSL_FLAG(absl::Duration, drain_budget, absl::Seconds(30),
          "With a store: how long writing sessions there may take when the "
          "server ends, after the drain timeout; 0s to 1h.");
ABSL_FLAG(steadystate::WeightType, weight_dtype, steadystate::WeightType{},
          "Type that weights are held in: f32, bf16, int8, or auto: bf16 where "
          "the CPU multiplies it natively, else f32.");
ABSL_FLAG(steadystate::StateType, state_dtype, steadystate::StateType{},
          "Type that the recurrent matrices of sessions are kept in: f32, or "
          "int16 or bf16, which take half the memory and bandwidth; where a "
          "model would not bear it, loading says so.");
ABSL_FLAG(
    std::string, transformers_version, "",
    "Version of transformers, such as 4.57.6, that the checkpoint is read "
    "as, in place of that in its config.json: where versions of a library "
    "read the same differently. The log says what was read how.");
ABSL_FLAG(uint32_t, threads, 0,
          "Threads that compute, 1 to 1024. 0: as many as this process may "
          "keep processors busy, CPU quotas considered.");
ABSL_FLAG(absl::Duration, session_ttl, absl::Hours(1),
          "How long a session may be idle before it expires, if it does not "
          "say so itself; 1s to 720h.");
ABSL_FLAG(uint32_t, history, 4096,
          "How many of its latest tokens a session remembers, 0 to 1048576; "
          "4 bytes each, and they count towards the session's memory. So far "
          "back a generation whose stream broke can be taken up again, and "
          "sessions can be taken back where they have a state to begin with.");
ABSL_FLAG(uint32_t, snapshots, 0,
          "Without a store: how many states that it had a session keeps beside "
          "its present one, spread over what it remembers (--history), 0 to "
          "64, so that it can be taken back; each costs as much memory as the "
          "session. With a store it must be 0: there the latest snapshot of "
          "each session serves.");
ABSL_FLAG(uint32_t, prefix_cache, 64,
          "How many prompts are kept for requests with reuse_prefix, beside "
          "checkpoints, which serve too; 0 to 4096. Each is charged as a "
          "session, and gives way to sessions; it ends when nobody has asked "
          "for it for --session_ttl.");
ABSL_FLAG(
    uint32_t, max_checkpoints, 0,
    "Most checkpoints, which take as much as sessions and stay until they "
    "are deleted. 0: a quarter of the sessions that the budget holds.");
ABSL_FLAG(uint64_t, context_cap, 0,
          "Most tokens of a session of a model with softmax layers, whose "
          "state is reserved up to this. 0: the model's own bound.");
ABSL_FLAG(uint32_t, max_batch_rows, 256,
          "Most tokens, of all sessions together, in one batch; 1 to 65536.");
ABSL_FLAG(uint32_t, prefill_chunk_rows, 0,
          "Most tokens of one session in one batch, 1 to max_batch_rows. "
          "Larger is faster for long prompts and slower for everybody else. 0: "
          "64, or up to 256 where the CPU multiplies more rows at once faster "
          "(AMX); at most max_batch_rows.");
ABSL_FLAG(absl::Duration, prefill_slice, absl::Milliseconds(10),
          "How long prompts compute before those who generate token by token "
          "have their turn, to the end of the layer at hand; 0 to 10s. Or "
          "twice as long as the last turn of those took, if that is longer: so "
          "prompts get at least two thirds of the time.");
ABSL_FLAG(uint32_t, max_embed_tokens, 65536,
          "Most tokens of one bidirectional Embed, at least 1. They are held "
          "in memory as the model's hidden vectors, and those of all requests "
          "within 1GiB.");
ABSL_FLAG(
    uint32_t, max_step_tokens, 4096,
    "Most tokens or embeddings of one Step, 1 to 1048576. A Step that has "
    "begun is not cut short, so this bounds how long it computes for a "
    "client that has gone. Longer prompts go by Generate.");
ABSL_FLAG(uint32_t, max_queued_per_session, 32,
          "Most requests that may wait on one session, at least 1.");
ABSL_FLAG(steadystate::ByteSize, max_message_bytes,
          steadystate::ByteSize{4 << 20},
          "Largest message either way, 64KiB to 1GiB. Most clients receive no "
          "more than 4MiB. Default 4MiB.");
ABSL_FLAG(uint32_t, max_steps_per_message, 1024,
          "Most steps of one StreamStep message, 1 to 1048576. A message with "
          "more ends its stream.");
ABSL_FLAG(
    steadystate::ByteSize, max_outbound_bytes, steadystate::ByteSize{256 << 20},
    "Memory for answers that have not been sent, of all clients, 16MiB "
    "to 1TiB. Requests pause when their connection has a twelfth of it, or "
    "less where others have much. Default 256MiB.");
ABSL_FLAG(uint32_t, max_concurrent_streams, 1024,
          "Most calls that one connection may have open, at least 1. More "
          "wait within the client.");
ABSL_FLAG(uint64_t, max_connections, 0,
          "Most connections at a time; more are closed at once. 0: as many as "
          "the limit of open files leaves after a reserve of 48 to 256.");
ABSL_FLAG(uint64_t, max_connections_per_peer, 0,
          "Most connections from one IPv4 address or one IPv6 network of 64 "
          "bits, at most max_connections. 0: half of them. Behind a proxy all "
          "come from its address: give both flags one value there.");
ABSL_FLAG(absl::Duration, drain_lag, absl::ZeroDuration(),
          "How long after SIGTERM the server takes requests as before, its "
          "health being NOT_SERVING already, so that balancers can send "
          "clients elsewhere; 0s to 1h. Where there are balancers: 5s.");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(5),
          "How long requests that run may go on after SIGTERM and the drain "
          "lag, 0s to 1h.");
ABSL_FLAG(bool, reflection, true,
          "Whether clients may ask for the services' descriptions.");
ABSL_FLAG(steadystate::LogLevelName, log_level, steadystate::LogLevelName{},
          "Lowest level that is logged, to standard error: debug, info, "
          "warning, error or off.");

namespace steadystate {
namespace {

// Sorted by name; only those of this file.
std::map<std::string, absl::CommandLineFlag*> OwnFlags() {
  std::map<std::string, absl::CommandLineFlag*> flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), "server/flags.cc")) {
      flags.emplace(name, flag);
    }
  }
  return flags;
}

std::string HelpText() {
  std::string text =
      "Serves a linear-attention language model over gRPC.\n\n"
      "  steadystate-server --model=DIRECTORY [--flag=value ...]\n\n"
      "When it is ready it prints one line to standard output:\n"
      "  listening grpc=HOST:PORT metrics=HOST:PORT\n"
      "SIGTERM and SIGINT end it in order, the second of them at once; before "
      "it is\nready the first does.\n"
      "Exit codes: 0 after SIGTERM or SIGINT, 143 or 130 after a second of "
      "them, 1 if\nthe model cannot be loaded, an address not be had or the "
      "end is not orderly, 2\nfor wrong flags.\n\n";
  for (const auto& [name, flag] : OwnFlags()) {
    const std::string value = flag->DefaultValue();
    absl::StrAppend(&text, "  --", name, "\n      ", flag->Help(),
                    " (default: ", value.empty() ? "none" : value, ")\n");
  }
  absl::StrAppend(&text,
                  "  --help\n      Prints this.\n"
                  "  --version\n      Prints the version.\n");
  return text;
}

absl::Status SetFlag(absl::CommandLineFlag& flag, absl::string_view value) {
  std::string error;
  if (flag.ParseFrom(value, &error)) return absl::OkStatus();
  if (flag.IsOfType<absl::Duration>()) {
    absl::StrAppend(&error, ": a duration has a unit, such as 500ms or 10s");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag.Name(), ": ", error));
}

// Sets the flag that `argument` names. If the value is the next argument, takes
// it: `next` is null if there is none.
absl::Status SetFromArgument(absl::string_view argument, const char* next,
                             bool* took_next) {
  absl::string_view name = argument;
  if (!absl::ConsumePrefix(&name, "--") && !absl::ConsumePrefix(&name, "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", argument, "' is not a flag; see --help"));
  }
  const size_t equals = name.find('=');
  const bool has_value = equals != absl::string_view::npos;
  const absl::string_view value = has_value ? name.substr(equals + 1) : "";
  name = name.substr(0, equals);
  const auto flags = OwnFlags();
  auto found = flags.find(std::string(name));
  const bool negated =
      found == flags.end() && !has_value && absl::ConsumePrefix(&name, "no");
  if (negated) found = flags.find(std::string(name));
  if (found == flags.end() || (negated && !found->second->IsOfType<bool>())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no flag ", argument, "; see --help"));
  }
  absl::CommandLineFlag& flag = *found->second;
  if (has_value) return SetFlag(flag, value);
  if (flag.IsOfType<bool>()) return SetFlag(flag, negated ? "false" : "true");
  if (next == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " needs a value"));
  }
  *took_next = true;
  return SetFlag(flag, next);
}

Flags Collect() {
  Flags flags;
  flags.model.path = absl::GetFlag(FLAGS_model);
  flags.model.weight_dtype = absl::GetFlag(FLAGS_weight_dtype).dtype;
  flags.model.transformers_version = absl::GetFlag(FLAGS_transformers_version);
  flags.model.state_dtype = absl::GetFlag(FLAGS_state_dtype).dtype;
  flags.model.context_cap = absl::GetFlag(FLAGS_context_cap);
  flags.engine.state_memory_bytes = absl::GetFlag(FLAGS_state_memory).bytes;
  flags.engine.session_ttl = absl::GetFlag(FLAGS_session_ttl);
  flags.engine.history = absl::GetFlag(FLAGS_history);
  flags.engine.snapshots = absl::GetFlag(FLAGS_snapshots);
  flags.engine.prefix_cache = absl::GetFlag(FLAGS_prefix_cache);
  if (const uint32_t most = absl::GetFlag(FLAGS_max_checkpoints); most > 0) {
    flags.engine.max_checkpoints = most;
  }
  flags.engine.store_budget_bytes = absl::GetFlag(FLAGS_store_budget).bytes;
  flags.engine.hibernate_after = absl::GetFlag(FLAGS_hibernate_after);
  flags.engine.threads = absl::GetFlag(FLAGS_threads);
  if (flags.engine.threads == 0) flags.engine.threads = UsableCpus();
  flags.engine.max_batch_rows = absl::GetFlag(FLAGS_max_batch_rows);
  flags.engine.prefill_chunk_rows = absl::GetFlag(FLAGS_prefill_chunk_rows);
  flags.engine.prefill_slice = absl::GetFlag(FLAGS_prefill_slice);
  flags.engine.max_embed_tokens = absl::GetFlag(FLAGS_max_embed_tokens);
  flags.engine.max_step_tokens = absl::GetFlag(FLAGS_max_step_tokens);
  flags.engine.max_queued_per_session =
      absl::GetFlag(FLAGS_max_queued_per_session);
  flags.server.listen = absl::GetFlag(FLAGS_listen);
  flags.server.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes).bytes;
  flags.server.max_steps_per_message =
      absl::GetFlag(FLAGS_max_steps_per_message);
  flags.server.max_outbound_bytes =
      absl::GetFlag(FLAGS_max_outbound_bytes).bytes;
  flags.server.max_concurrent_streams =
      absl::GetFlag(FLAGS_max_concurrent_streams);
  flags.server.max_connections = absl::GetFlag(FLAGS_max_connections);
  flags.server.max_connections_per_peer =
      absl::GetFlag(FLAGS_max_connections_per_peer);
  flags.server.reflection = absl::GetFlag(FLAGS_reflection);
  flags.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  flags.drain_lag = absl::GetFlag(FLAGS_drain_lag);
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  flags.drain_budget = absl::GetFlag(FLAGS_drain_budget);
  flags.store = absl::GetFlag(FLAGS_store);
  flags.allow_damaged_store = absl::GetFlag(FLAGS_allow_damaged_store);
  flags.engine.durability = absl::GetFlag(FLAGS_durability).durability;
  flags.engine.log_sync_interval = absl::GetFlag(FLAGS_log_sync_interval);
  flags.engine.max_replay = absl::GetFlag(FLAGS_max_replay);
  flags.engine.allow_other_numerics = absl::GetFlag(FLAGS_allow_other_numerics);
  flags.log_level = absl::GetFlag(FLAGS_log_level).level;
  return flags;
}

absl::Status CheckDrain(absl::string_view name, absl::Duration time) {
  if (time >= absl::ZeroDuration() && time <= absl::Hours(1)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--", name, " is ",
                                                 absl::FormatDuration(time),
                                                 "; it must be in [0s, 1h]"));
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    Flags only_text;
    if (argument == "--help" || argument == "-h") {
      only_text.text = HelpText();
      return only_text;
    }
    if (argument == "--version") {
      only_text.text = absl::StrCat("steadystate-server ", kVersion, "\n");
      return only_text;
    }
    bool took_next = false;
    STEADYSTATE_RETURN_IF_ERROR(SetFromArgument(
        argument, i + 1 < argc ? argv[i + 1] : nullptr, &took_next));
    if (took_next) ++i;
  }
  Flags flags = Collect();
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
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_lag", flags.drain_lag));
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_timeout", flags.drain_timeout));
  STEADYSTATE_RETURN_IF_ERROR(CheckDrain("drain_budget", flags.drain_budget));
  // What needs no model is told before loading one, which takes time.
  STEADYSTATE_RETURN_IF_ERROR(
      ValidateEngineOptions(flags.engine, !flags.store.empty()));
  STEADYSTATE_RETURN_IF_ERROR(ValidateServerOptions(flags.server));
  return flags;
}

}  // namespace steadystate
