#include "server/flag_table.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/byte_size.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

using client::Option;
using client::OptionTable;

// What a flag is called and does. `range` as client::Option has it: bounds are
// checked where they are kept, ValidateEngineOptions for most of them.
struct About {
  absl::string_view name;
  absl::string_view help;
  absl::string_view range = {};
};

// Flags by the type of what they set, whose value so far is the default.

// Values beyond 32 bits are refused: sizes are products of these numbers.
Option Count(const About& about, size_t* target) {
  const auto read = [target](absl::string_view text) -> absl::Status {
    uint32_t value = 0;
    if (!absl::SimpleAtoi(text, &value)) {
      return client::NotWhole(text, std::numeric_limits<uint32_t>::max());
    }
    *target = value;
    return absl::OkStatus();
  };
  return {about.name, "N",         about.help,           read,
          0,          about.range, absl::StrCat(*target)};
}

Option LongCount(const About& about, uint64_t* target) {
  const auto read = [target](absl::string_view text) -> absl::Status {
    if (absl::SimpleAtoi(text, target)) return absl::OkStatus();
    return client::NotWhole(text, std::numeric_limits<uint64_t>::max());
  };
  return {about.name, "N",         about.help,           read,
          0,          about.range, absl::StrCat(*target)};
}

Option Bytes(const About& about, uint64_t* target) {
  const auto read = [target](absl::string_view text) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(*target, ParseByteSize(text));
    return absl::OkStatus();
  };
  return {about.name,
          "SIZE",
          about.help,
          read,
          0,
          about.range,
          UnparseByteSize(*target)};
}

Option Time(const About& about, absl::Duration* target) {
  const auto read = [target](absl::string_view text) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(*target, client::ParseTime(text));
    return absl::OkStatus();
  };
  return {about.name,
          "DURATION",
          about.help,
          read,
          0,
          about.range,
          absl::FormatDuration(*target)};
}

Option Switch(const About& about, bool* target) {
  return {about.name,
          "",
          about.help,
          target,
          0,
          about.range,
          *target ? "on" : "off"};
}

Option Text(const About& about, absl::string_view value, std::string* target) {
  return {about.name,
          value,
          about.help,
          target,
          0,
          about.range,
          target->empty() ? "none" : *target};
}

// One of a few words, the default first told: `take` gets its index.
struct Words {
  absl::string_view words;  // "f32|bf16|int16"
  absl::string_view initial;
  std::function<void(size_t)> take;
};

Option Word(const About& about, const Words& words) {
  const auto read = [words](absl::string_view text) -> absl::Status {
    const std::vector<absl::string_view> all = absl::StrSplit(words.words, '|');
    for (size_t i = 0; i < all.size(); ++i) {
      if (text != all[i]) continue;
      words.take(i);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not one of ", absl::StrJoin(all, ", "),
                     client::DidYouMean(text, all)));
  };
  return {about.name,
          words.words,
          about.help,
          read,
          0,
          about.range,
          std::string(words.initial)};
}

// Tables of flags, with `flags` as their target. Those of the model and of
// where the server is; of sessions; of limits; of its end.

void AppendModel(Flags& flags, OptionTable& table) {
  ModelOptions& model = flags.model;
  table.push_back(Text({"model",
                        "Required. Directory of the checkpoint: config.json "
                        "and model.safetensors or its shards."},
                       "DIRECTORY", &model.path));
  table.back().initial.clear();
  table.push_back(
      Text({"listen",
            "Address of the gRPC server. Port 0 picks a free one. There is no "
            "encryption: do not listen where untrusted peers are."},
           "HOST:PORT", &flags.server.listen));
  table.push_back(
      {"metrics_listen", "HOST:PORT|off",
       "Where http://HOST:PORT/metrics is served to Prometheus, /healthz and "
       "/readyz to orchestrators. Port 0 picks a free one; off: nowhere.",
       [&flags](absl::string_view text) {
         flags.metrics_listen.reset();
         if (text != "off") flags.metrics_listen.emplace(text);
         return absl::OkStatus();
       },
       0, "", *flags.metrics_listen});
  table.push_back(Word(
      {"weight_dtype",
       "Type that weights are held in; auto: bf16. int8 and int4 take half "
       "and a quarter of bf16's memory, are faster where weights come from "
       "memory, and less exact, int4 the more so."},
      {"auto|f32|bf16|int8|int4", "auto", [&model](size_t index) {
         constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kI8,
                                     DType::kI4};
         model.weight_dtype.reset();
         if (index > 0) model.weight_dtype = kTypes[index - 1];
       }}));
  table.push_back(
      Word({"state_dtype",
            "Type that the recurrent matrices of sessions are kept in: int16 "
            "and bf16 take half the memory and bandwidth of f32; where a model "
            "would not bear it, loading says so."},
           {"f32|bf16|int16", "f32", [&model](size_t index) {
              constexpr StateDType kTypes[] = {
                  StateDType::kF32, StateDType::kBf16, StateDType::kInt16};
              model.state_dtype = kTypes[index];
            }}));
  table.push_back(
      Text({"transformers_version",
            "Version of transformers, such as 4.57.6, that the checkpoint is "
            "read as, in place of that in its config.json: where versions of a "
            "library read the same differently. The log says what was read "
            "how."},
           "VERSION", &model.transformers_version));
}

// Of what softmax layers keep.
void AppendCaches(Flags& flags, OptionTable& table) {
  ModelOptions& model = flags.model;
  table.push_back(Word(
      {"cache_dtype",
       "Type that softmax layers keep the keys and values of tokens in; auto: "
       "bf16, or f32 if weights are. int8: half of bf16's memory, a little "
       "less exact."},
      {"auto|f32|bf16|int8", "auto", [&model](size_t index) {
         constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kI8};
         model.cache_dtype.reset();
         if (index > 0) model.cache_dtype = kTypes[index - 1];
       }}));
  table.push_back(LongCount(
      {"context_cap",
       "Most tokens of a session of a model with softmax layers that asks for "
       "no other number (Session.context_cap); memory for them is charged when "
       "it is created. 0: the model's own bound, at most 8192."},
      &model.context_cap));
  table.push_back(LongCount(
      {"max_context_cap",
       "The largest Session.context_cap that clients may ask for. 0: the "
       "model's own bound, if that is more than --context_cap."},
      &model.max_context_cap.emplace(0)));
}

void AppendSessions(Flags& flags, OptionTable& table) {
  EngineOptions& engine = flags.engine;
  table.push_back(Bytes({"state_memory",
                         "Memory for the states of all sessions, for instance "
                         "4GiB.",
                         "at least what a session takes"},
                        &engine.state_memory_bytes));
  table.push_back(
      Time({"session_ttl",
            "How long a session may be idle before it expires, if it does not "
            "say so itself.",
            "1s to 720h"},
           &engine.session_ttl));
  table.push_back(Count(
      {"history",
       "How many of its latest tokens a session remembers; 4 bytes each, and "
       "they count towards the session's memory. So far back a generation "
       "whose stream broke can be taken up again, and sessions can be taken "
       "back where they have a state to begin with.",
       "0 to 1048576"},
      &engine.history));
  table.push_back(Count(
      {"snapshots",
       "Without a store: how many states that it had a session keeps beside "
       "its present one, spread over what it remembers (--history), so that it "
       "can be taken back; each costs as much memory as the session. With a "
       "store it must be 0: there the latest snapshot of each session serves.",
       "0 to 64, and to a 16th of --history"},
      &engine.snapshots));
  table.push_back(Count(
      {"prefix_cache",
       "How many prompts are kept for requests with reuse_prefix, beside "
       "checkpoints, which serve too. Each is charged as a session, and gives "
       "way to sessions; it ends when nobody has asked for it for "
       "--session_ttl.",
       "0 to 4096"},
      &engine.prefix_cache));
  const auto read_most = [&engine](absl::string_view text) -> absl::Status {
    uint32_t most = 0;
    if (!absl::SimpleAtoi(text, &most)) {
      return client::NotWhole(text, std::numeric_limits<uint32_t>::max());
    }
    engine.max_checkpoints.reset();
    if (most > 0) engine.max_checkpoints = most;
    return absl::OkStatus();
  };
  table.push_back(
      {"max_checkpoints", "N",
       "Most checkpoints, which take as much as sessions and stay until they "
       "are deleted. 0: a quarter of the sessions that the budget holds.",
       read_most, 0, "0 to 4294967295", "0"});
}

void AppendStore(Flags& flags, OptionTable& table) {
  EngineOptions& engine = flags.engine;
  table.push_back(
      Text({"store",
            "Directory in which sessions are kept while they are not in "
            "memory, and when the server is not running; made if it is not "
            "there. Each model and each server needs its own. Empty: sessions "
            "are in memory only."},
           "DIRECTORY", &flags.store));
  table.push_back(
      Switch({"allow_damaged_store",
              "With a store: go on with what can be read of one that is "
              "damaged. What cannot is lost; keep a copy before."},
             &flags.allow_damaged_store));
  table.push_back(
      Word({"durability",
            "With a store: what of sessions that do not say outlives the "
            "server: none; shutdown: all that they are when it ends in order; "
            "log: all that has been answered, however it ends; sync: and a "
            "loss of power."},
           {"none|shutdown|log|sync", "log", [&flags](size_t index) {
              flags.engine.durability = static_cast<Durability>(index);
              flags.needs_store = index > 0 ? "durability" : "";
            }}));
  table.push_back(
      Time({"log_sync_interval",
            "With a store: how much of what was answered a loss of power may "
            "cost sessions of durability log.",
            "10ms to 1h"},
           &engine.log_sync_interval));
  table.push_back(Time(
      {"max_replay",
       "With a store: how long it may take to compute again what a session of "
       "durability log or sync has absorbed since its snapshot; then another "
       "one is taken.",
       "1ms to 1h"},
      &engine.max_replay));
  table.push_back(Switch(
      {"allow_other_numerics",
       "With a store: also go on with sessions of a server that was killed and "
       "that computed other bits, of another version or on another CPU."},
      &engine.allow_other_numerics));
  table.push_back(Bytes({"store_budget",
                         "What all sessions together may take in the store, "
                         "each with as many tokens as its context cap allows, "
                         "for instance 500GiB."},
                        &engine.store_budget_bytes));
  const auto read_after = [&flags](absl::string_view text) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(flags.engine.hibernate_after,
                                 client::ParseTime(text));
    flags.needs_store = "hibernate_after";
    return absl::OkStatus();
  };
  table.push_back(
      {"hibernate_after", "DURATION",
       "With a store: how long a session may be idle before its state leaves "
       "memory; inf: only when others need the memory.",
       read_after, 0, "at least 1s, or inf",
       absl::FormatDuration(engine.hibernate_after)});
}

void AppendBatches(Flags& flags, OptionTable& table) {
  EngineOptions& engine = flags.engine;
  table.push_back(
      Count({"threads",
             "Threads that compute, and pack the weights at the start. 0: as "
             "many as this process may keep processors busy, CPU quotas "
             "considered.",
             "0 to 1024"},
            &engine.threads));
  table.push_back(Count(
      {"max_batch_rows", "Most tokens, of all sessions together, in one batch.",
       "1 to 65536"},
      &engine.max_batch_rows));
  table.push_back(Count(
      {"prefill_chunk_rows",
       "Most tokens of one session in one batch. Larger is faster for long "
       "prompts and slower for everybody else. 0: 64, or up to 256 where the "
       "CPU multiplies more rows at once faster (AMX); at most "
       "--max_batch_rows.",
       "0 to --max_batch_rows"},
      &engine.prefill_chunk_rows));
  table.push_back(
      Time({"prefill_slice",
            "How long prompts compute before those who generate token by token "
            "have their turn, to the end of the layer at hand. Or twice as "
            "long as the last turn of those took, if that is longer: so "
            "prompts get at least two thirds of the time.",
            "0s to 10s"},
           &engine.prefill_slice));
}

void AppendLimits(Flags& flags, OptionTable& table) {
  EngineOptions& engine = flags.engine;
  ServerOptions& server = flags.server;
  table.push_back(Count(
      {"max_embed_tokens",
       "Most tokens of one bidirectional Embed. They are held in memory as the "
       "model's hidden vectors, and those of all requests within 1GiB.",
       "1 to 4294967295"},
      &engine.max_embed_tokens));
  table.push_back(Count(
      {"max_step_tokens",
       "Most tokens or embeddings of one Step. A Step that has begun is not "
       "cut short, so this bounds how long it computes for a client that has "
       "gone. Longer prompts go by Generate.",
       "1 to 1048576"},
      &engine.max_step_tokens));
  table.push_back(
      Count({"max_queued_per_session",
             "Most requests that may wait on one session.", "1 to 4294967295"},
            &engine.max_queued_per_session));
  table.push_back(
      Bytes({"max_message_bytes",
             "Largest message either way. Most clients receive no more than "
             "4MiB.",
             "64KiB to 1GiB"},
            &server.max_message_bytes));
  table.push_back(
      Count({"max_steps_per_message",
             "Most steps of one StreamStep message. A message with more ends "
             "its stream.",
             "1 to 1048576"},
            &server.max_steps_per_message));
  table.push_back(Bytes(
      {"max_outbound_bytes",
       "Memory for answers that have not been sent, of all clients. Requests "
       "pause when their connection has a twelfth of it, or less where others "
       "have much.",
       "16MiB to 1TiB"},
      &server.max_outbound_bytes));
}

void AppendConnections(Flags& flags, OptionTable& table) {
  ServerOptions& server = flags.server;
  table.push_back(
      Count({"max_concurrent_streams",
             "Most calls that one connection may have open. More wait within "
             "the client.",
             "1 to 2147483647"},
            &server.max_concurrent_streams));
  table.push_back(LongCount(
      {"max_connections",
       "Most connections at a time; more are closed at once. 0: as many as the "
       "limit of open files leaves after a reserve of 48 to 256."},
      &server.max_connections));
  table.push_back(LongCount(
      {"max_connections_per_peer",
       "Most connections from one IPv4 address or one IPv6 network of 64 bits, "
       "at most --max_connections. 0: half of them. Behind a proxy all come "
       "from its address: give both flags one value there."},
      &server.max_connections_per_peer));
  table.push_back(
      Switch({"reflection",
              "Whether clients may ask for the services' descriptions; "
              "--no_reflection: not."},
             &server.reflection));
}

void AppendEnd(Flags& flags, OptionTable& table) {
  table.push_back(Time(
      {"drain_lag",
       "How long after SIGTERM the server takes requests as before, its health "
       "being NOT_SERVING already, so that balancers can send clients "
       "elsewhere. Where there are balancers: 5s.",
       "0s to 1h"},
      &flags.drain_lag));
  table.push_back(
      Time({"drain_timeout",
            "How long requests that run may go on after SIGTERM and the drain "
            "lag.",
            "0s to 1h"},
           &flags.drain_timeout));
  table.push_back(
      Time({"drain_budget",
            "With a store: how long writing sessions there may take when the "
            "server ends, after the drain timeout. So long it is tried again "
            "where the store fails.",
            "0s to 1h"},
           &flags.drain_budget));
  table.push_back(
      Word({"log_level", "Lowest level that is logged, to standard error."},
           {"debug|info|warning|error|off", "info", [&flags](size_t index) {
              flags.log_level = static_cast<LogLevel>(index);
            }}));
  table.push_back(
      Word({"log_format",
            "How lines of the log look: for people, or a JSON object."},
           {"text|json", "text", [&flags](size_t index) {
              flags.log_format = static_cast<LogFormat>(index);
            }}));
}

}  // namespace

client::OptionTable FlagTable(Flags& flags) {
  OptionTable table;
  AppendModel(flags, table);
  AppendCaches(flags, table);
  AppendSessions(flags, table);
  AppendStore(flags, table);
  AppendBatches(flags, table);
  AppendLimits(flags, table);
  AppendConnections(flags, table);
  AppendEnd(flags, table);
  return table;
}

}  // namespace steadystate
