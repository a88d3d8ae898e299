// Goal: the command line says what it can do, and what was wrong with what it
// was told. Method: the program itself, without a server.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::cli_usage_e2e_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kClient[] = STEADYSTATE_BIN_DIR "/steadystate";

class CliUsageTest : public testing::Test {
 protected:
  std::string Print(const std::string& arguments) {
    const Outcome outcome =
        RunShell(absl::StrCat(kClient, " ", arguments), directory_.path());
    EXPECT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
    return outcome.out;
  }

  std::string Fail(int code, const std::string& arguments) {
    const Outcome outcome =
        RunShell(absl::StrCat(kClient, " ", arguments), directory_.path());
    EXPECT_EQ(outcome.code, code) << arguments << ": " << outcome.out;
    return outcome.err;
  }

  const TempDirectory directory_;
};

TEST_F(CliUsageTest, WrongCommandLinesAreExplained) {
  EXPECT_THAT(Fail(2, ""), HasSubstr("Commands:"));
  EXPECT_THAT(Fail(2, "generat"), HasSubstr("did you mean generate?"));
  EXPECT_THAT(Fail(2, "session"), HasSubstr("session create"));
  EXPECT_THAT(Fail(2, "generate --promt a"), HasSubstr("mean --prompt?"));
  EXPECT_THAT(Fail(2, "generate"), HasSubstr("needs a prompt"));
  EXPECT_THAT(Fail(2, "generate --prompt_file /dev/null"),
              HasSubstr("/dev/null is empty, and a fresh session needs"));
  EXPECT_THAT(Fail(2, "generate '- a list'"), HasSubstr("-- '- a list'"));
  EXPECT_THAT(Fail(2, "generate a b"), HasSubstr("in quotes, such as 'a b'"));
  EXPECT_THAT(Fail(2, "sesion"), HasSubstr("did you mean session?"));
  EXPECT_THAT(Fail(2, "session delet a"), HasSubstr("mean session delete?"));
  EXPECT_THAT(
      Fail(2, "--json model"),
      HasSubstr("comes before its options: steadystate COMMAND --json"));
  EXPECT_THAT(Fail(2, "generate a --timeout 10"), HasSubstr("has no unit"));
  EXPECT_THAT(Fail(2, "health --address https://a:1"),
              HasSubstr("no encryption"));
  EXPECT_THAT(Fail(2, "chat hello"), HasSubstr("from standard input"));
  EXPECT_THAT(Fail(2, "completion"), HasSubstr("bash|zsh|fish"));
  EXPECT_THAT(Fail(2, "help generat"), HasSubstr("did you mean generate?"));
  EXPECT_THAT(Fail(2, "help session delet"), HasSubstr("session delete?"));
  EXPECT_THAT(Fail(2, "generate --prompt a --prompt_file b"),
              HasSubstr("only one of"));
  EXPECT_THAT(Fail(2, "generate --prompt \"$(printf '\\377')\""),
              HasSubstr("must be UTF-8"));
  EXPECT_THAT(Fail(2, "generate --prompt a --logprobs 1"),
              HasSubstr("needs --json"));
  EXPECT_THAT(Fail(2, "score --text_file /no/such"), HasSubstr("/no/such"));
  EXPECT_THAT(Fail(2, "score --text ''"), HasSubstr("nothing to score"));
  EXPECT_THAT(Fail(2, "score --text a --logits_out /no/such/x"),
              HasSubstr("/no/such/x"));
  EXPECT_THAT(Fail(2, "session get"), HasSubstr("id is missing"));
  EXPECT_THAT(Fail(2, "session rewind a --by 3"), HasSubstr("mean --back?"));
  EXPECT_THAT(Fail(2, "session rewind a --tokens 3"),
              HasSubstr("mean --back?"));
}

TEST_F(CliUsageTest, WhatACommandLineLacksIsShown) {
  EXPECT_EQ(Fail(2, "session export a"),
            "error: the file's name is missing\n"
            "Usage: steadystate session export ID FILE [OPTIONS]\n"
            "See: steadystate help session export\n");
  EXPECT_EQ(Fail(2, "session export"),
            "error: the session's id and the file's name are missing\n"
            "Usage: steadystate session export ID FILE [OPTIONS]\n"
            "See: steadystate help session export\n");
}

void ExpectNarrow(const std::string& text) {
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST_F(CliUsageTest, EveryCommandHasHelp) {
  const std::string overview = Print("help");
  ExpectNarrow(overview);
  const std::string manual = Print("help --man");
  for (const char* command : {"generate",
                              "chat",
                              "score",
                              "embed",
                              "load",
                              "session create",
                              "session get",
                              "session list",
                              "session fork",
                              "session rewind",
                              "session export",
                              "session import",
                              "session hibernate",
                              "session delete",
                              "session watch",
                              "session checkpoint",
                              "checkpoint list",
                              "checkpoint delete",
                              "model",
                              "health",
                              "completion",
                              "version",
                              "help"}) {
    EXPECT_THAT(overview, HasSubstr(absl::StrCat("\n  ", command, " ")));
    EXPECT_THAT(manual,
                HasSubstr(absl::StrCat("\n.SS \"steadystate ", command)));
    const std::string help = Print(absl::StrCat("help ", command));
    EXPECT_THAT(help, HasSubstr("Examples:"));
    EXPECT_THAT(help, HasSubstr("-h, --help"));
    ExpectNarrow(help);
  }
  EXPECT_EQ(Print("session create --help"), Print("help session create"));
  EXPECT_EQ(Print("help --help"), Print("help help"));
  EXPECT_EQ(Print("generate -h"), Print("help generate"));
  EXPECT_EQ(Print("--help"), overview);
  EXPECT_EQ(Print("-h"), overview);
  EXPECT_THAT(Print("generate -h"), HasSubstr("  -a, --address HOST:PORT\n"));
}

TEST_F(CliUsageTest, GroupsHaveHelp) {
  const std::string group = Print("session --help");
  EXPECT_THAT(group, HasSubstr("\n  session export "));
  EXPECT_EQ(Print("help session"), group);
  EXPECT_EQ(Print("session -h"), group);
  EXPECT_EQ(Print("session help"), group);
}

// Refused here, and with no line of a library's.
TEST_F(CliUsageTest, ValuesThatNoServerTakesAreRefusedHere) {
  const struct {
    const char* arguments;
    const char* said;
  } kCases[] = {
      {"generate a --temperature nan", "'nan' is not a finite number"},
      {"generate a --top_p=-inf", "'-inf' is not a finite number"},
      {"generate a --min_p 1e999", "'1e999' is not a finite number"},
      {"generate a --logit_bias 1=inf", "'1=inf' is not TOKEN=BIAS"},
      {"generate a --stop \"$(printf '\\377')\"", "--stop: text must be UTF-8"},
      {"session create --id \"$(printf '\\377')\"", "--id: text must be UTF-8"},
      {"session create --id ''", "--id: '' is no id: leave it out"},
      {"session fork a --id x --id x", "--id: 'x' is given twice"},
      {"session list --match ''", "--match: '' matches no id"},
      {"load --html -", "--html '-' names no file"},
      {"load --warmup 5", "--warmup: '5' has no unit"},
      {"load --slo_attainment 1", "--slo_attainment is for --slo"},
      {"load --max_send_lag 1s", "--max_send_lag is for requests that arrive"},
      {"session get \"$(printf '\\377')\"", "text must be UTF-8"},
      {"model -a ipv4:localhost:1", "after ipv4: come numbers"},
      {"model -a '[x]:1'", "in brackets is an IPv6 address"},
      {"generate --prompt_file /dev/zero",
       "/dev/zero has more than 268435456 bytes"},
  };
  for (const auto& test : kCases) {
    const std::string said = Fail(2, test.arguments);
    EXPECT_THAT(said, StartsWith("error: ")) << test.arguments;
    EXPECT_THAT(said, HasSubstr(test.said)) << test.arguments;
  }
}

TEST_F(CliUsageTest, TellsItsVersion) {
  EXPECT_THAT(Print("version"), StartsWith("steadystate "));
  EXPECT_EQ(Print("--version"), Print("version"));
}

TEST_F(CliUsageTest, ShellsReadTheCompletions) {
  const std::string script = directory_.path() + "/script";
  EXPECT_EQ(
      Print(absl::StrCat("completion bash >", script, "; bash -n ", script)),
      "");
  EXPECT_THAT(Print("completion fish"), HasSubstr("-a generate\n"));
  EXPECT_THAT(Print("completion zsh"), StartsWith("#compdef steadystate\n"));
}

TEST_F(CliUsageTest, AReaderThatLeavesIsNoError) {
  const Outcome outcome =
      RunShell(absl::StrCat("bash -c '", kClient, " help --man | head -c 1'"),
               directory_.path());
  EXPECT_EQ(outcome.out, ".");
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace steadystate::cli_usage_e2e_test
