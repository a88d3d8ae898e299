// Goal: help says all that a table has, in 80 columns. Method: small tables.
#include "client/options/help.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::help_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(FormatOptionsTest, WrapsHelpAndLeavesSwitchesWithoutValue) {
  bool on = false;
  std::string text;
  const std::string wide(70, 'x');
  const std::string help = "A file " + wide;
  EXPECT_EQ(
      FormatOptions({{"switch", "", "Turns it on.", &on, 's'},
                     {"file", "FILE", help, &text}}),
      "  -s, --switch\n      Turns it on.\n  --file FILE\n      A file\n" +
          std::string(6, ' ') + wide + "\n");
}

TEST(FormatOptionsTest, EndsWithRangeAndDefault) {
  std::string text;
  EXPECT_EQ(
      FormatOptions({{"wait", "DURATION", "How long.", &text, 0,
                      "at least 1s, or inf", "5m"}}),
      "  --wait DURATION\n      How long. At least 1s, or inf. Default 5m.\n");
}

TEST(WrapTest, KeepsLineEndsAndTheBlanksBeforeALine) {
  EXPECT_EQ(Wrap("a b\n\n  c", 2), "  a b\n\n    c\n");
  const std::string text =
      Wrap(std::string(30, 'x') + " " + std::string(30, 'y') + " " +
               std::string(30, 'z'),
           10);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    EXPECT_LE(line.size(), 80u);
  }
}

TEST(FormatMeaningsTest, AlignsAndWrapsMeanings) {
  EXPECT_EQ(FormatMeanings({{"0", "done"}, {"130", "interrupted"}}),
            "  0    done\n  130  interrupted\n");
  EXPECT_THAT(FormatMeanings(
                  {{"1", std::string(60, 'x') + " " + std::string(60, 'y')}}),
              HasSubstr("x\n     y"));
}

TEST(LiteralWordsTest, TellsWordsFromPlaceholders) {
  EXPECT_THAT(LiteralWords({"rpc", "step|generate", "",
                            std::function<absl::Status(absl::string_view)>()}),
              ElementsAre("step", "generate"));
  EXPECT_THAT(LiteralWords({"max", "N|none", "",
                            std::function<absl::Status(absl::string_view)>()}),
              ElementsAre("none"));
  EXPECT_THAT(LiteralWords({"file", "FILE", "",
                            std::function<absl::Status(absl::string_view)>()}),
              IsEmpty());
  EXPECT_THAT(LiteralWords({"switch", "", "",
                            std::function<absl::Status(absl::string_view)>()}),
              IsEmpty());
}

TEST(FormatOverviewTest, ShowsAGroupAlone) {
  const Program program = {
      .name = "tool",
      .version = "1",
      .summary = "does things",
      .description = "What it does.",
      .commands = {{{"make", "", "Makes", "", ""}, {}},
                   {{"file list", "", "Lists", "", ""}, {}}},
      .exit_codes = {{"0", "done"}},
      .environment = {}};
  EXPECT_THAT(FormatOverview(program, ""), HasSubstr("  make       Makes\n"));
  const std::string group = FormatOverview(program, "file");
  EXPECT_THAT(group, HasSubstr("tool file COMMAND"));
  EXPECT_THAT(group, HasSubstr("  file list  Lists\n"));
  EXPECT_THAT(group, Not(HasSubstr("make")));
}

}  // namespace
}  // namespace steadystate::client::help_test
