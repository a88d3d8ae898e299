// Goal: the command line against a real server: what it prints, what it leaves
// behind, how it ends. Method: the demo model on free ports; commands as a user
// types them.
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"

namespace steadystate::cli_e2e_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr int kNoServer = 3;  // exit code

class CliTest : public CliFixture {
 protected:
  CliTest() : CliFixture("deploy/models/demo") {}
};

TEST_F(CliTest, HealthIsServing) {
  EXPECT_EQ(Print("health"), "SERVING\n");
  EXPECT_EQ(Print("health --service steadystate.v1.SessionService"),
            "SERVING\n");
  EXPECT_THAT(Fail(1, "health --service no.such.Service"),
              StartsWith("error: NOT_FOUND: the server has no service "
                         "'no.such.Service'; --service takes names such as"));
}

TEST_F(CliTest, NoServerIsItsOwnExitCode) {
  EXPECT_THAT(Fail(kNoServer, "health --address 127.0.0.1:1"),
              HasSubstr("no server answers at 127.0.0.1:1"));
  EXPECT_THAT(Fail(kNoServer, "generate --prompt a --address 127.0.0.1:1"),
              StartsWith("error: UNAVAILABLE"));
}

TEST_F(CliTest, WhyThereIsNoConnectionIsSaid) {
  EXPECT_THAT(Fail(kNoServer, "health --timeout 1ns"),
              HasSubstr("no server answered at " + address_ +
                        " within 1ns: "
                        "give it more time"));
  EXPECT_THAT(Fail(kNoServer, "health --address " + metrics_),
              HasSubstr("speaks HTTP/1, not gRPC"));
  // Too long for a name, so that nobody is asked for it.
  EXPECT_THAT(Fail(kNoServer, "health --address " + std::string(70, 'a')),
              HasSubstr(":50051 is not known"));
}

// The connection does not get their numbers, and what is written there.
TEST_F(CliTest, StandardDescriptorsMayBeClosed) {
  EXPECT_EQ(Print("health 0<&- 2>&-"), "SERVING\n");
  EXPECT_THAT(Fail(1, "health >&-"), HasSubstr("standard output"));
}

TEST_F(CliTest, GeneratePrintsTextAndNothingElse) {
  const std::string arguments = "generate --prompt 'The ' --seed 7 ";
  const Outcome outcome = Run(arguments + "--max_tokens 40");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_FALSE(outcome.out.empty());
  EXPECT_EQ(Print(arguments + "--max_tokens 40"), outcome.out);
  const nlohmann::json json = Json(arguments + "--max_tokens 40");
  EXPECT_EQ(json["text"], outcome.out);
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["generated_tokens"], json["tokens"].size());
  EXPECT_EQ(Print("session list"), "");
}

TEST_F(CliTest, GenerateHonoursItsOptions) {
  const nlohmann::json json = Json(
      "generate --prompt 'The ' --temperature 0 --max_tokens 5 "
      "--ignore_eos --logprobs 2");
  EXPECT_EQ(json["generated_tokens"], 5);
  EXPECT_EQ(json["position"], 9);
  EXPECT_EQ(json["finish_reason"], "LENGTH");
  EXPECT_GT(json["state_bytes"], 0);
  EXPECT_GT(json["time_to_first_token_seconds"], 0);
  ASSERT_EQ(json["logprobs"].size(), 5u);
  EXPECT_EQ(json["logprobs"][0]["top_logprobs"].size(), 2u);
  EXPECT_EQ(json["logprobs"][0]["top_logprobs"][0]["token"], json["tokens"][0]);

  EXPECT_EQ(Json("generate --prompt a --max_tokens 0")["generated_tokens"], 0);
  const nlohmann::json biased =
      Json("generate --prompt a --max_tokens 3 --logit_bias 90=100");
  EXPECT_EQ(biased["text"], "ZZZ");
  const nlohmann::json stopped = Json(
      "generate --prompt a --max_tokens 9 --logit_bias 90=100 --stop ZZZZ");
  EXPECT_EQ(stopped["text"], "");
  EXPECT_EQ(stopped["finish_reason"], "STOP_STRING");
  EXPECT_EQ(Json("generate --prompt a --max_tokens none --logit_bias 90=100 "
                 "--stop_token 90")["finish_reason"],
            "STOP_TOKEN");
}

TEST_F(CliTest, ZeroIsSentAndNotTakenForAbsent) {
  EXPECT_THAT(
      Fail(1, "generate --prompt a --top_k 0"),
      ContainsRegex("error: INVALID_ARGUMENT INVALID_ARGUMENT: .*top_k"));
}

TEST_F(CliTest, SummaryGoesToStandardError) {
  const Outcome outcome =
      Run("generate --prompt 'The ' --seed 1 --max_tokens 30 --ignore_eos "
          "--summary");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("position")));
  EXPECT_THAT(outcome.err, HasSubstr("position             34 tokens"));
  EXPECT_THAT(outcome.err, ContainsRegex("speed +[0-9.]+ tokens/s"));
}

TEST_F(CliTest, LongPromptsAreAbsorbedWhole) {
  const std::string path =
      directory_.Write("long", std::string(9000, 'a') + "\xe2\x82\xac");
  const nlohmann::json json =
      Json("generate --max_tokens 3 --ignore_eos --prompt_file " + path);
  EXPECT_EQ(json["prompt_tokens"], 9003);
  EXPECT_EQ(json["position"], 9006);
  EXPECT_EQ(json["generated_tokens"], 3);
}

TEST_F(CliTest, PromptsComeFromStandardInput) {
  const std::string path = directory_.Write("prompt", "from a file\n");
  EXPECT_EQ(
      Json("generate --max_tokens 0 --prompt_file - <" + path)["prompt_tokens"],
      12);
}

TEST_F(CliTest, SessionsLiveAsLongAsTheyAreTold) {
  EXPECT_EQ(Print("session create --id my-session --label user=ada --ttl 10m"),
            "sessions/my-session\n");
  EXPECT_THAT(Fail(1, "session create --id my-session"),
              StartsWith("error: ALREADY_EXISTS SESSION_ALREADY_EXISTS: "));
  Print("generate --session my-session --prompt 'The ' --max_tokens 4");
  const nlohmann::json session = Json("session get sessions/my-session");
  EXPECT_EQ(session["position"], 8);
  EXPECT_EQ(session["ttl"], 600);
  EXPECT_EQ(session["labels"]["user"], "ada");
  EXPECT_EQ(session["state_norms"].size(), 0u);
  EXPECT_THAT(Print("session get my-session"),
              testing::Not(HasSubstr("state_norms")));
  const nlohmann::json norms = Json("session get my-session --norms");
  ASSERT_GT(norms["state_norms"].size(), 0u);
  EXPECT_EQ(norms["state_norms"][0]["layer"], 0);
  EXPECT_GT(norms["state_norms"][0]["l2_norm"], 0);
  EXPECT_EQ(norms["state_norms"][0]["non_finite"], 0);
  EXPECT_THAT(Print("session get my-session --norms"),
              ContainsRegex("layer  slot +l2_norm +max_abs +non_finite\n"
                            " +0  S  +[0-9.e+-]+ +[0-9.e+-]+ +0\n"));
  Print("generate --session my-session --max_tokens 2 --expected_position 8");
  EXPECT_EQ(Json("session get my-session")["position"], 10);
  EXPECT_THAT(Fail(1, "generate --session my-session --expected_position 8"),
              StartsWith("error: ABORTED POSITION_MISMATCH: "));
  EXPECT_THAT(Print("session list"),
              ContainsRegex("^sessions/my-session  10 tokens  [0-9]+ bytes"));
  EXPECT_EQ(Json("session list").size(), 1u);
  EXPECT_EQ(Print("session delete my-session"), "");
  EXPECT_THAT(Fail(1, "session get my-session"),
              StartsWith("error: NOT_FOUND SESSION_NOT_FOUND: "));
}

TEST_F(CliTest, AForkGoesOnAsTheSessionDoes) {
  Print("session create --id mother");
  Print("generate --session mother --prompt 'The ' --max_tokens 4");
  EXPECT_EQ(Print("session fork mother --id daughter"), "sessions/daughter\n");
  EXPECT_EQ(Print("generate --session daughter --max_tokens 9 --seed 3"),
            Print("generate --session mother --max_tokens 9 --seed 3"));
  EXPECT_EQ(Json("session get daughter")["position"], 17);
  const std::string two = Print("session fork mother --count 2");
  EXPECT_THAT(two,
              ContainsRegex("^sessions/[a-z0-9-]+\nsessions/[a-z0-9-]+\n$"));
  EXPECT_THAT(Fail(1, "session fork mother --id daughter"),
              StartsWith("error: ALREADY_EXISTS SESSION_ALREADY_EXISTS: "));
  EXPECT_THAT(Fail(2, "session fork"), HasSubstr("id is missing"));
}

TEST_F(CliTest, ASessionGoesBack) {
  Print("session create --id there");
  Print("generate --session there --prompt 'The ' --max_tokens 4");
  const std::string text =
      Print("generate --session there --max_tokens 9 --seed 3");
  EXPECT_EQ(Print("session rewind there --to 8"), "sessions/there  8 tokens\n");
  EXPECT_EQ(Print("generate --session there --max_tokens 9 --seed 3"), text);
  EXPECT_EQ(Json("session rewind there --back 9 --json")["position"], 8);
  EXPECT_EQ(Print("session fork there --id then --at 4"), "sessions/then\n");
  EXPECT_EQ(Json("session get then")["position"], 4);
  EXPECT_THAT(Fail(1, "session rewind there --to 9"),
              StartsWith("error: OUT_OF_RANGE POSITION_OUT_OF_REACH: "));
  EXPECT_THAT(Fail(2, "session rewind there"), HasSubstr("--to, --back"));
}

TEST_F(CliTest, APromptIsReadOnce) {
  const std::string prompt(700, 'a');
  const std::string generate =
      "generate --max_tokens 5 --seed 3 --json --reuse_prefix --prompt " +
      prompt;
  const auto first =
      Json("generate --max_tokens 5 --seed 3 --json --prompt " + prompt);
  EXPECT_EQ(Json(generate)["reused_tokens"], 0);
  const auto again = Json(generate);
  EXPECT_GT(again["reused_tokens"], 0);
  EXPECT_EQ(again["prompt_tokens"], 700);
  EXPECT_EQ(again["tokens"], first["tokens"]);
  EXPECT_EQ(Print("checkpoint list"), "");
  Print("session create --id old");
  Print("generate -s old --reuse_prefix -n 1 --prompt " + prompt);
  EXPECT_THAT(Fail(1, "generate -s old --reuse_prefix --prompt b"),
              HasSubstr("sessions/old is at position 701: leave it out"));
}

TEST_F(CliTest, ACheckpointIsKeptForOthers) {
  Print("session create --id first");
  Print("generate --session first --prompt 'The system prompt' --max_tokens 0");
  EXPECT_EQ(Print("session checkpoint first --id prompt"),
            "checkpoints/prompt\n");
  EXPECT_THAT(Print("checkpoint list"),
              ContainsRegex("^checkpoints/prompt  17 tokens  [0-9]+ bytes\n$"));
  const std::string next = "generate --max_tokens 9 --seed 3 --session ";
  const std::string text = Print(next + "first");
  EXPECT_EQ(Print("session create --id second --from prompt"),
            "sessions/second\n");
  EXPECT_EQ(Print(next + "second"), text);
  EXPECT_EQ(Print("session rewind second --checkpoint prompt"),
            "sessions/second  17 tokens\n");
  EXPECT_EQ(Print(next + "second"), text);
  EXPECT_THAT(Print("session list"), Not(HasSubstr("prompt")));
  EXPECT_THAT(Fail(1, "session checkpoint first --id prompt"),
              StartsWith("error: ALREADY_EXISTS CHECKPOINT_ALREADY_EXISTS: "));
  EXPECT_EQ(Print("checkpoint delete prompt"), "");
  EXPECT_EQ(Print("checkpoint list"), "");
  EXPECT_THAT(Fail(1, "session create --from prompt"),
              StartsWith("error: NOT_FOUND CHECKPOINT_NOT_FOUND: "));
  EXPECT_THAT(Fail(2, "checkpoint delete"), HasSubstr("id is missing"));
}

TEST_F(CliTest, AnExportedSessionGoesOnUnderAnotherName) {
  Print("session create --id old");
  Print("generate --session old --prompt 'The ' --max_tokens 4");
  const std::string file = directory_.path() + "/old.snapshot";
  EXPECT_EQ(Print("session export old " + file), "");
  EXPECT_EQ(Print("session import " + file + " --id new"), "sessions/new\n");
  EXPECT_EQ(Print("session export old - >" + file + ".2; " + kClient +
                  " session import - --id newer --address " + address_ + " <" +
                  file + ".2"),
            "sessions/newer\n");
  const std::string expected =
      Print("generate --session old --max_tokens 9 --seed 3");
  for (const char* const id : {"new", "newer"}) {
    EXPECT_EQ(Print(absl::StrCat("generate --session ", id,
                                 " --max_tokens 9 --seed 3")),
              expected);
  }
  EXPECT_THAT(Fail(1, "session import " + file),
              StartsWith("error: ALREADY_EXISTS SESSION_ALREADY_EXISTS: "));
  EXPECT_THAT(Fail(1, "session import /etc/hostname --id other"),
              StartsWith("error: DATA_LOSS SNAPSHOT_CORRUPT: "));
  EXPECT_THAT(Fail(1, "session import /no/such/file"),
              HasSubstr("/no/such/file"));
  EXPECT_THAT(Fail(1, "session export old /no/such/file"),
              HasSubstr("cannot write /no/such/file"));
  EXPECT_THAT(Fail(1, "session export nobody " + file),
              StartsWith("error: NOT_FOUND SESSION_NOT_FOUND: "));
  EXPECT_THAT(Fail(2, "session export old"), HasSubstr("name is missing"));
  EXPECT_THAT(Fail(2, "session import"), HasSubstr("name is missing"));
}

TEST_F(CliTest, AServerWithoutAStoreCannotHibernate) {
  Print("session create --id a");
  EXPECT_THAT(Fail(1, "session hibernate a"),
              StartsWith("error: FAILED_PRECONDITION NO_STORE: "));
  EXPECT_THAT(Fail(1, "session create --durability log"),
              StartsWith("error: FAILED_PRECONDITION NO_STORE: "));
  EXPECT_EQ(Json("session create --durability none")["durability"], "NONE");
  EXPECT_THAT(Fail(2, "session create --durability ever"),
              HasSubstr("'ever' is not none, shutdown, log or sync"));
  EXPECT_THAT(Fail(2, "session hibernate"), HasSubstr("id is missing"));
}

TEST_F(CliTest, WatchShowsWhatHappensUntilItIsInterrupted) {
  const std::string log = directory_.path() + "/watch_log";
  const std::string json_log = directory_.path() + "/watch_json_log";
  Process json({kClient, "session", "watch", "--json", "--address", address_},
               json_log);
  const nlohmann::json first = nlohmann::json::parse(json.ReadLine());
  EXPECT_TRUE(first["events"].empty());
  const std::string cursor = first["cursor"];
  Print("session create --id a");
  Print("session fork a --id b");
  Print("session delete a");
  Process watch(
      {kClient, "session", "watch", "--cursor", cursor, "--address", address_},
      log);
  EXPECT_THAT(watch.ReadLine(),
              ContainsRegex("^20[-0-9T:.]+Z  CREATED  sessions/a  0 tokens$"));
  EXPECT_THAT(watch.ReadLine(),
              HasSubstr("  FORKED  sessions/b  0 tokens  of sessions/a"));
  EXPECT_THAT(watch.ReadLine(), HasSubstr("  DELETED  sessions/a  0 tokens"));
  watch.Signal(SIGINT);
  EXPECT_EQ(watch.Wait(), 0);
  EXPECT_THAT(ReadWholeFile(log), StartsWith("to go on: --cursor "));
  size_t events = 0;
  while (events < 3) {
    const nlohmann::json message = nlohmann::json::parse(json.ReadLine());
    ASSERT_FALSE(message["events"].empty());
    events += message["events"].size();
  }
  json.Signal(SIGTERM);
  EXPECT_EQ(json.Wait(), 0);
}

TEST_F(CliTest, WatchIsOfOneSessionIfAskedTo) {
  Process any({kClient, "session", "watch", "--json", "--address", address_},
              directory_.path() + "/any_log");
  const std::string cursor = nlohmann::json::parse(any.ReadLine())["cursor"];
  Print("session create --id a");
  Print("session create --id b");
  Process watch({kClient, "session", "watch", "b", "--cursor", cursor,
                 "--address", address_},
                directory_.path() + "/watch_log");
  EXPECT_THAT(watch.ReadLine(), HasSubstr("  CREATED  sessions/b  "));
  EXPECT_THAT(Fail(1, "session watch --cursor x"),
              StartsWith("error: INVALID_ARGUMENT INVALID_ARGUMENT: cursor"));
  EXPECT_THAT(Fail(1, "session watch /"),
              StartsWith("error: INVALID_ARGUMENT INVALID_ARGUMENT: session"));
  EXPECT_THAT(Fail(2, "session watch a b"), HasSubstr("unexpected 'b'"));
}

class CliStoppedServerTest : public CliTest {
 protected:
  // It has been asked to end.
  void TearDown() override { EXPECT_EQ(server_.Wait(), 0); }
};

TEST_F(CliStoppedServerTest, WatchSaysWhyItEnds) {
  const std::string log = directory_.path() + "/watch_log";
  Process watch({kClient, "session", "watch", "--json", "--address", address_},
                log);
  const std::string cursor = nlohmann::json::parse(watch.ReadLine())["cursor"];
  server_.Signal(SIGTERM);
  EXPECT_EQ(watch.Wait(), 1);
  EXPECT_THAT(ReadWholeFile(log),
              StartsWith("to go on: --cursor " + cursor +
                         "\nerror: UNAVAILABLE DRAINING: "));
}

TEST_F(CliTest, KeepLeavesTheSessionAndNamesIt) {
  const Outcome outcome = Run("generate --prompt a --max_tokens 3 --keep");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, StartsWith("sessions/"));
  EXPECT_EQ(Json("session get " +
                 outcome.err.substr(0, outcome.err.size() - 1))["position"],
            4);
}

TEST_F(CliTest, InterruptingAGenerationLeavesNoSession) {
  Process generate({kClient, "generate", "--address", address_, "--prompt", "a",
                    "--max_tokens", "none", "--ignore_eos"},
                   directory_.path() + "/generate_log");
  EXPECT_EQ(generate.Read(20).size(), 20u);
  generate.Signal(SIGINT);
  EXPECT_EQ(generate.Wait(), 130);
  EXPECT_THAT(ReadWholeFile(directory_.path() + "/generate_log"), IsEmpty());
  EXPECT_EQ(Print("session list"), "");
}

TEST_F(CliTest, KillingAGenerationLeavesNoSession) {
  Process generate({kClient, "generate", "--address", address_, "--prompt", "a",
                    "--max_tokens", "none", "--ignore_eos"},
                   directory_.path() + "/generate_log");
  EXPECT_EQ(generate.Read(20).size(), 20u);
  EXPECT_NE(Print("session list"), "");
  generate.Signal(SIGKILL);
  generate.Wait();
  const absl::Time give_up = absl::Now() + absl::Seconds(20);
  while (Print("session list") != "" && absl::Now() < give_up) {
  }
  EXPECT_EQ(Print("session list"), "");
}

// The shell says how the first program of the pipe ended: as any other there.
TEST_F(CliTest, AReaderThatLeavesEndsTheGenerationQuietly) {
  const Outcome outcome = RunShell(
      absl::StrCat("bash -c '", kClient, " generate a --address ", address_,
                   " --max_tokens none --ignore_eos | head -c 10 | wc -c; "
                   "echo ${PIPESTATUS[0]}'"),
      directory_.path());
  EXPECT_EQ(outcome.out, "10\n141\n");
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_EQ(Print("session list"), "");
}

TEST_F(CliTest, InterruptingAGenerationPrintsWhatWasAskedFor) {
  const std::string log = directory_.path() + "/generate_log";
  Process generate({kClient, "generate", "-a", address_, "-p", "abc", "-n",
                    "none", "--ignore_eos", "--summary"},
                   log);
  EXPECT_EQ(generate.Read(20).size(), 20u);
  generate.Signal(SIGINT);
  EXPECT_EQ(generate.Wait(), 130);
  EXPECT_THAT(ReadWholeFile(log),
              ContainsRegex("prompt +3 tokens\ngenerated +[0-9]+ tokens, ended "
                            "by CANCELLED\n"));
  EXPECT_EQ(Print("session list"), "");
}

TEST_F(CliTest, ATimeoutPrintsTheJsonThatWasAskedFor) {
  const Outcome outcome =
      Run("generate a --max_tokens none --ignore_eos --json --timeout 2s");
  EXPECT_EQ(outcome.code, 1);
  const auto json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(json["finish_reason"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(json["generated_tokens"], json["tokens"].size());
}

TEST_F(CliTest, LettersAndAnArgumentSayTheSameAsNames) {
  const std::string text =
      Print("generate --prompt 'The ' --max_tokens 9 --temperature 0");
  EXPECT_EQ(Print("generate 'The ' -n 9 -t 0"), text);
  EXPECT_EQ(Print("generate -n9 -t=0 --max-tokens 9 -- 'The '"), text);
  Print("session create --id a");
  EXPECT_EQ(Print("generate -s a -p 'The ' -n 9 -t 0"), text);
  EXPECT_EQ(Json("score 'The database is open.'")["tokens"], 21);
  EXPECT_EQ(Json("embed ab --pooling mean")["tokens"], 2);
}

TEST_F(CliTest, AddressesMayBeWrittenAsPeopleDo) {
  const std::string port = address_.substr(address_.rfind(':'));
  for (const std::string& address :
       {port, port.substr(1), "http://127.0.0.1" + port + "/"}) {
    EXPECT_EQ(Print("health --address " + address), "SERVING\n") << address;
  }
}

TEST_F(CliTest, WhatIsTooLargeForAMessageIsSaid) {
  const std::string file =
      directory_.Write("large", std::string(5'000'000, 'a'));
  EXPECT_THAT(Fail(1, "embed --pooling mean --text_file " + file),
              HasSubstr("--max_message_bytes of steadystate-server): give less "
                        "at once"));
}

TEST_F(CliTest, TimeoutEndsACall) {
  Outcome outcome;
  // A busy machine gets more time, until it has connected.
  for (int timeout_ms = 300; timeout_ms < 60'000; timeout_ms *= 2) {
    outcome =
        Run(absl::StrCat("generate --prompt a --max_tokens none --ignore_eos "
                         "--timeout ",
                         timeout_ms, "ms >/dev/null"));
    if (outcome.code != kNoServer) break;
  }
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, StartsWith("error: DEADLINE_EXCEEDED"));
}

TEST_F(CliTest, ScoreCountsBytes) {
  const nlohmann::json json = Json("score --text 'The database is open.'");
  EXPECT_EQ(json["tokens"], 21);
  EXPECT_EQ(json["scored_tokens"], 20);
  EXPECT_LT(json["total_logprob"], 0);
  // One token is one byte.
  EXPECT_DOUBLE_EQ(json["bits_per_byte"], json["bits_per_token"]);
  EXPECT_THAT(Print("score --text 'The database is open.'"),
              ContainsRegex("tokens +21\n"));
  EXPECT_FALSE(Json("score --text a").contains("bits_per_byte"));
}

TEST_F(CliTest, ModelDescribesItself) {
  EXPECT_EQ(Json("model")["tokenizer"], "bytes");
  EXPECT_THAT(Print("model"), ContainsRegex("vocab_size +256\n"));
}

TEST_F(CliTest, OneCommandShowsEverything) {
  const Outcome outcome = RunShell(
      absl::StrCat(kRoot,
                   "/deploy/run --once --prompt 'The table ' --listen "
                   "127.0.0.1:0 --metrics_listen=127.0.0.1:0 --bin_dir ",
                   STEADYSTATE_BIN_DIR),
      directory_.path());
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("The table "));
  // A demo of two words would show neither the model nor the speed.
  EXPECT_THAT(outcome.out, HasSubstr("generated            300 tokens"));
  for (const char* line :
       {"session +sessions/", "position +[0-9]+ tokens", "state +[0-9]+ bytes",
        "time to first token +[0-9.]+ ms", "speed +[0-9.]+ tokens/s",
        "metrics +http://127.0.0.1:[0-9]+/metrics"}) {
    EXPECT_THAT(outcome.out, ContainsRegex(line));
  }
}

TEST_F(CliTest, OneCommandSaysThatAPortIsTaken) {
  const Outcome outcome =
      RunShell(absl::StrCat(kRoot, "/deploy/run --once --bin_dir ",
                            STEADYSTATE_BIN_DIR, " --listen ", address_),
               directory_.path());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(address_ + " is taken"));
}

TEST_F(CliTest, OneCommandCanDoWithoutMetrics) {
  const Outcome outcome = RunShell(
      absl::StrCat(kRoot, "/deploy/run --once --bin-dir=", STEADYSTATE_BIN_DIR,
                   " --listen 127.0.0.1:0 --metrics-listen off"),
      directory_.path());
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, ContainsRegex("gRPC +127.0.0.1:[0-9]+\n$"));
}

}  // namespace
}  // namespace steadystate::cli_e2e_test
