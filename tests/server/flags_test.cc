// Goal: flags land where they belong, and what is wrong with them is said at
// once, with what may be given. Method: command lines, without a model.
#include "server/flags.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::flags_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<Flags> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "steadystate-server");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data());
}

// With a model.
absl::StatusOr<Flags> Serve(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model=somewhere");
  return Parse(std::move(arguments));
}

std::string Error(std::vector<std::string> arguments) {
  const auto flags = Serve(std::move(arguments));
  EXPECT_EQ(flags.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(flags.status().message());
}

TEST(FlagsTest, WhatIsNotGivenIsTheDefault) {
  const auto flags = Serve({});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->model.path, "somewhere");
  EXPECT_FALSE(flags->model.weight_dtype.has_value());
  EXPECT_FALSE(flags->model.cache_dtype.has_value());
  EXPECT_EQ(flags->server.listen, "127.0.0.1:50051");
  EXPECT_EQ(flags->metrics_listen, "127.0.0.1:9464");
  EXPECT_EQ(flags->engine.state_memory_bytes, uint64_t{4} << 30);
  EXPECT_EQ(flags->engine.durability, Durability::kLog);
  EXPECT_EQ(flags->engine.prefill_chunk_rows, 0u);
  EXPECT_GE(flags->engine.threads, 1u);
  EXPECT_EQ(flags->model.threads, flags->engine.threads);
  EXPECT_EQ(flags->drain_timeout, absl::Seconds(5));
  EXPECT_EQ(flags->log_level, LogLevel::kInfo);
  EXPECT_FALSE(flags->text.has_value());
}

TEST(FlagsTest, NamesAreWrittenWithDashesOrUnderscores) {
  const auto flags =
      Serve({"--state-memory", "64Gi", "--session_ttl=90s", "--max-step-tokens",
             "7", "--state_dtype", "bf16", "--weight-dtype=int8",
             "--cache_dtype=f32", "--noreflection", "--durability=sync",
             "--store", "/tmp", "--metrics-listen", "off", "--log_level",
             "warning", "--allow-other-numerics"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->engine.state_memory_bytes, uint64_t{64} << 30);
  EXPECT_EQ(flags->engine.session_ttl, absl::Seconds(90));
  EXPECT_EQ(flags->engine.max_step_tokens, 7u);
  EXPECT_EQ(flags->model.state_dtype, StateDType::kBf16);
  EXPECT_EQ(flags->model.weight_dtype, DType::kI8);
  EXPECT_EQ(flags->model.cache_dtype, DType::kF32);
  EXPECT_FALSE(flags->server.reflection);
  EXPECT_EQ(flags->engine.durability, Durability::kSync);
  EXPECT_FALSE(flags->metrics_listen.has_value());
  EXPECT_EQ(flags->log_level, LogLevel::kWarning);
  EXPECT_TRUE(flags->engine.allow_other_numerics);
}

TEST(FlagsTest, WeightsMayBeInAnyTypeThatIsMultiplied) {
  for (const auto& [word, dtype] : {std::pair("f32", DType::kF32),
                                    {"bf16", DType::kBf16},
                                    {"int8", DType::kI8},
                                    {"int4", DType::kI4}}) {
    const auto flags = Serve({"--weight_dtype", word});
    ASSERT_TRUE(flags.ok()) << flags.status();
    EXPECT_EQ(flags->model.weight_dtype, dtype);
  }
}

TEST(FlagsTest, CachesHaveATypeOfTheirOwn) {
  for (const auto& [word, dtype] : {std::pair("f32", DType::kF32),
                                    {"bf16", DType::kBf16},
                                    {"int8", DType::kI8}}) {
    const auto flags = Serve({"--cache_dtype", word});
    ASSERT_TRUE(flags.ok()) << flags.status();
    EXPECT_EQ(flags->model.cache_dtype, dtype);
  }
  const auto flags = Serve({"--cache_dtype=int8", "--cache_dtype=auto"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_FALSE(flags->model.cache_dtype.has_value());
}

TEST(FlagsTest, ErrorsTellUnitAndRange) {
  EXPECT_EQ(Error({"--session_ttl=10"}),
            "--session_ttl: '10' has no unit: ms, s, m or h, such as 10s; it "
            "may be 1s to 720h");
  EXPECT_EQ(Error({"--threads=many"}),
            "--threads: 'many' is not a whole number; it may be 0 to 1024");
  EXPECT_EQ(Error({"--max_embed_tokens=4294967296"}),
            "--max_embed_tokens: '4294967296' is more than 4294967295, the "
            "most; it may be 1 to 4294967295");
  EXPECT_THAT(Error({"--max_connections=18446744073709551616"}),
              HasSubstr("is more than 18446744073709551615, the most"));
  EXPECT_EQ(Error({"--no_reflection=3"}),
            "--no_reflection takes no value: leave '=3' out, or give "
            "--reflection=false");
  EXPECT_EQ(Error({"--session_ttl=0s"}),
            "--session_ttl is 0; it must be in [1s, 720h]");
  EXPECT_THAT(Error({"--drain_lag=61m"}), HasSubstr("in [0s, 1h]"));
  EXPECT_THAT(Error({"--state-memory=4G"}),
              HasSubstr("--state-memory: '4G' may be 4GiB or 4GB"));
}

TEST(FlagsTest, WhatIsOutOfBoundsIsNamed) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"--threads=-1", "--threads"},
      {"--threads=5000", "--threads is 5000; it must be in [0, 1024]"},
      {"--state_memory=4XiB", "--state_memory"},
      {"--weight_dtype=int2", "--weight_dtype"},
      {"--state_dtype=f16", "--state_dtype"},
      {"--cache_dtype=int4", "--cache_dtype"},
      {"--log_level=loud", "--log_level"},
      {"--transformers_version=newest", "--transformers_version"},
      {"--reflection=perhaps", "--reflection"},
      {"--drain_lag=-1s", "--drain_lag is -1s; it must be in [0s, 1h]"},
      {"--drain_timeout=-1s", "--drain_timeout"},
      {"--drain_budget=2h", "--drain_budget"},
      {"--max_batch_rows=0", "--max_batch_rows"},
      {"--prefill_chunk_rows=257", "--prefill_chunk_rows"},
      {"--prefill_slice=11s", "--prefill_slice"},
      {"--max_queued_per_session=0", "--max_queued_per_session"},
      {"--max_embed_tokens=0", "--max_embed_tokens"},
      {"--max_step_tokens=0", "--max_step_tokens"},
      {"--max_step_tokens=1048577", "--max_step_tokens"},
      {"--max_message_bytes=1KiB", "--max_message_bytes"},
      {"--max_steps_per_message=0", "--max_steps_per_message"},
      {"--max_concurrent_streams=0", "--max_concurrent_streams"},
      {"--max_connections=18446744073709551615", "--max_connections"},
      {"--max_outbound_bytes=1MiB", "--max_outbound_bytes"},
      {"--hibernate_after=1ms", "--hibernate_after"},
      {"--max_replay=0s", "--max_replay"},
      {"--log_sync_interval=2h", "--log_sync_interval"},
      {"--history=1048577", "--history"},
      {"--prefix_cache=4097", "--prefix_cache"},
      {"--state_memory=1KiB", "--state_memory is 1KiB; the 4096 tokens"}};
  for (const auto& [flag, said] : kCases) {
    EXPECT_THAT(Error({flag}), HasSubstr(said)) << flag;
  }
  EXPECT_THAT(Error({"--store=/nowhere/store", "--snapshots=2"}),
              HasSubstr("--snapshots is 2; it must be 0 with a store"));
  EXPECT_THAT(Error({"--max_connections=1", "--max_connections_per_peer=2"}),
              HasSubstr("--max_connections_per_peer is 2"));
  EXPECT_THAT(Error({"--durability=log"}), HasSubstr("give --store DIRECTORY"));
  EXPECT_THAT(Error({"--hibernate_after=1m"}),
              HasSubstr("--hibernate_after needs a store"));
  EXPECT_TRUE(Serve({"--durability=none"}).ok());
  EXPECT_TRUE(Serve({"--hibernate_after=1m", "--store=/tmp"}).ok());
  EXPECT_THAT(std::string(Parse({}).status().message()),
              HasSubstr("--model is missing"));
}

TEST(FlagsTest, ErrorsNameWhatWasProbablyMeant) {
  EXPECT_EQ(Error({"--sesion-ttl=1h"}),
            "unknown option --sesion-ttl, did you mean --session_ttl?");
  EXPECT_THAT(Error({"--durability=lgo"}), HasSubstr("did you mean log?"));
  EXPECT_THAT(Error({"listen", "127.0.0.1:1"}),
              HasSubstr("did you mean --listen?"));
  EXPECT_THAT(Error({"--listen"}), HasSubstr("--listen needs a value: HOST"));
}

TEST(FlagsTest, AddressesAreAnsweredWithTheForm) {
  EXPECT_THAT(Error({"--listen=:50051"}), HasSubstr("give 127.0.0.1:50051"));
  EXPECT_THAT(Error({"--listen=50051"}), HasSubstr("give 127.0.0.1:50051"));
  EXPECT_THAT(Error({"--listen=localhost"}), HasSubstr("in localhost:50051"));
  EXPECT_THAT(Error({"--listen=http://127.0.0.1:5/"}),
              HasSubstr("without http://, that is 127.0.0.1:5"));
  EXPECT_THAT(Error({"--metrics_listen=none"}), HasSubstr("off: no metrics"));
  EXPECT_THAT(Error({"--listen=[::1]:7", "--metrics_listen=::1:7"}),
              HasSubstr("give each a port of its own"));
  EXPECT_TRUE(Serve({"--listen=[::1]:50051"}).ok());
  EXPECT_TRUE(Serve({"--listen=a:0", "--metrics_listen=a:0"}).ok());
}

TEST(FlagsTest, AStoreIsADirectory) {
  const TempDirectory directory;
  const std::string file = directory.Write("file", "");
  EXPECT_EQ(Error({"--store", file}),
            absl::StrCat("--store is ", file, ", which is not a directory"));
  EXPECT_TRUE(Serve({"--store", directory.path()}).ok());
  EXPECT_TRUE(Serve({"--store", directory.path() + "/new"}).ok());
}

TEST(FlagsTest, HelpHasEveryFlagIn80Columns) {
  const auto flags = Parse({"--help"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_THAT(*flags->text, HasSubstr("  --state_memory SIZE\n"));
  EXPECT_THAT(*flags->text, HasSubstr("Default 4GiB."));
  EXPECT_THAT(*flags->text, HasSubstr("1s to 720h. Default 1h."));
  EXPECT_THAT(*flags->text, HasSubstr("  -h, --help\n"));
  for (const absl::string_view line : absl::StrSplit(*flags->text, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(FlagsTest, ManualAndCompletionsComeFromTheSameTable) {
  EXPECT_THAT(*Parse({"--man"})->text, StartsWith(".TH STEADYSTATE-SERVER 1"));
  EXPECT_THAT(*Parse({"--man"})->text, HasSubstr("\\-\\-max_batch_rows"));
  EXPECT_THAT(*Parse({"--completion", "bash"})->text,
              HasSubstr("':--durability') words='none shutdown log sync' ;;"));
  EXPECT_THAT(Error({"--completion=tcsh"}), HasSubstr("bash, zsh, fish"));
}

}  // namespace
}  // namespace steadystate::flags_test
