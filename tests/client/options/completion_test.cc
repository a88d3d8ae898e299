// Goal: Bash completes commands, options and values. Method: Bash itself, which
// is given the script and the words of a command line; of the other shells,
// which need not be here, the script's text.
#include "client/options/completion.h"

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::client::completion_test {
namespace {

using testing::HasSubstr;

class CompletionTest : public testing::Test {
 protected:
  CompletionTest() {
    program_.name = "my-tool";
    program_.commands = {
        {{"make", "", "Makes", "", ""},
         {{"max_tokens", "N|none", "A bound.", &text_, 'n'},
          {"mode", "fast|slow", "How.", &text_},
          {"out", "FILE", "Where.", &text_},
          {"name", "TEXT", "What.", &text_},
          {"json", "", "JSON.", &on_}}},
        {{"file list", "", "Lists", "", ""}, {{"all", "", "All.", &on_}}},
        {{"file delete", "", "Deletes", "", ""}, {}}};
  }

  // What Bash offers for the last of `words`, a list in its syntax.
  std::string Complete(const std::string& words) {
    const std::string script =
        directory_.Write("script", *FormatCompletion(program_, "bash"));
    directory_.Write("file.txt", "");
    const std::string commands = directory_.Write(
        "commands", absl::StrCat("cd ", directory_.path(), "\nsource ", script,
                                 "\nCOMP_WORDS=(", words,
                                 ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n",
                                 "_my_tool\necho \"${COMPREPLY[*]}\"\n"));
    const std::unique_ptr<FILE, int (*)(FILE*)> bash(
        popen(absl::StrCat("bash ", commands, " 2>&1").c_str(), "r"), pclose);
    std::string output;
    for (int c = std::fgetc(bash.get()); c != EOF; c = std::fgetc(bash.get())) {
      output += static_cast<char>(c);
    }
    return output;
  }

  const TempDirectory directory_;
  Program program_;
  std::string text_;
  bool on_ = false;
};

TEST_F(CompletionTest, CommandsComeFirst) {
  EXPECT_EQ(Complete("my-tool ''"), "file make\n");
  EXPECT_EQ(Complete("my-tool m"), "make\n");
  EXPECT_EQ(Complete("my-tool file ''"), "delete list\n");
  EXPECT_EQ(Complete("my-tool file l"), "list\n");
}

TEST_F(CompletionTest, ArgumentsAreWords) {
  program_.commands.push_back({{"help", "[COMMAND]", "Helps", "", ""}, {}});
  program_.commands.push_back(
      {{"shell", "bash|zsh", "For", "", ""}, {{"all", "", "All.", &on_}}});
  program_.commands.push_back({{"make again", "", "Again", "", ""}, {}});
  EXPECT_EQ(Complete("my-tool help ''"), "file help make shell\n");
  EXPECT_EQ(Complete("my-tool shell ''"), "bash zsh --all\n");
  EXPECT_EQ(Complete("my-tool shell z"), "zsh\n");
  EXPECT_EQ(Complete("my-tool make a"), "again\n");
  EXPECT_EQ(Complete("my-tool make --mo"), "--mode\n");
  EXPECT_EQ(Complete("my-tool make --mode ''"), "fast slow\n");
  EXPECT_EQ(Complete("my-tool make --json --mo"), "--mode\n");
  EXPECT_EQ(Complete("my-tool make again ''"), "\n");
  const std::string fish = *FormatCompletion(program_, "fish");
  EXPECT_THAT(fish, HasSubstr("from help' -a 'file help make shell'\n"));
  EXPECT_THAT(fish, HasSubstr("from shell' -a 'bash zsh'\n"));
}

TEST_F(CompletionTest, OptionsAreThoseOfTheCommand) {
  EXPECT_EQ(Complete("my-tool make --m"), "--max_tokens --mode\n");
  EXPECT_EQ(Complete("my-tool make --max-"), "--max-tokens\n");
  EXPECT_EQ(Complete("my-tool file list --"), "--all\n");
  EXPECT_EQ(Complete("my-tool file delete --"), "\n");
}

TEST_F(CompletionTest, ValuesAreWordsOrFiles) {
  EXPECT_EQ(Complete("my-tool make --mode ''"), "fast slow\n");
  EXPECT_EQ(Complete("my-tool make --mode = s"), "slow\n");
  EXPECT_EQ(Complete("my-tool make --mode ="), "fast slow\n");
  EXPECT_EQ(Complete("my-tool make -n ''"), "none\n");
  EXPECT_EQ(Complete("my-tool make --max-tokens n"), "none\n");
  EXPECT_EQ(Complete("my-tool make --out fi"), "file.txt\n");
  EXPECT_EQ(Complete("my-tool make --name ''"), "\n");
  EXPECT_EQ(Complete("my-tool make --json --m"), "--max_tokens --mode\n");
}

TEST_F(CompletionTest, AProgramWithoutCommandsHasOptions) {
  program_.commands = {
      {{"", "", "", "", ""}, {{"mode", "fast|slow", "How.", &text_}}}};
  EXPECT_EQ(Complete("my-tool --"), "--mode\n");
  EXPECT_EQ(Complete("my-tool --mode f"), "fast\n");
}

TEST_F(CompletionTest, OtherShellsHaveTheirs) {
  EXPECT_THAT(*FormatCompletion(program_, "zsh"),
              HasSubstr("#compdef my-tool\n"));
  const std::string fish = *FormatCompletion(program_, "fish");
  EXPECT_THAT(fish, HasSubstr("complete -c my-tool -n '__fish_use_subcommand' "
                              "-a make\n"));
  EXPECT_THAT(fish,
              HasSubstr("complete -c my-tool -n '__fish_seen_subcommand_from "
                        "make' -l mode -xa 'fast slow' -d 'How'\n"));
  EXPECT_THAT(fish, HasSubstr("-l max_tokens -s n -xa 'none' -d 'A bound'\n"));
  EXPECT_THAT(
      std::string(FormatCompletion(program_, "tcsh").status().message()),
      HasSubstr("'tcsh'; there are for bash, zsh, fish"));
}

}  // namespace
}  // namespace steadystate::client::completion_test
