// Goal: the manual page shows what help says, and nothing in it is taken for a
// request of troff's. Method: a small program with awkward words.
#include "client/options/manual.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::manual_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Program Tool() {
  static std::string target;
  static bool on = false;
  return {.name = "tool",
          .version = "1.2",
          .summary = "does things",
          .description = "'quoted' first\n.hidden? \\n stays",
          .commands = {{{"file list", "ID", "Lists", "Lists files.",
                         "  tool file list -a\n"},
                        {{"size", "SIZE", "How large.", &target, 's', "0 to 9",
                          "1"},
                         {"all", "", "Every one.", &on}}}},
          .exit_codes = {{"0", "done"}},
          .environment = {{"TOOL_HOME", "where it lives"}}};
}

TEST(FormatManualTest, HasAllThatHelpHas) {
  const std::string page = FormatManual(Tool());
  EXPECT_THAT(page, StartsWith(".TH TOOL 1 \"\" \"Steadystate 1.2\"\n"));
  EXPECT_THAT(page, HasSubstr("tool \\- does things"));
  EXPECT_THAT(page, HasSubstr(".SS \"tool file list ID\"\nLists files.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-s\\fR, \\fB\\-\\-size\\fR \\fISIZE\\fR\n"
                              "How large. 0 to 9. Default 1.\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-all\\fR\nEvery one.\n"));
  EXPECT_THAT(page, HasSubstr("tool file list \\-a\n"));
  EXPECT_THAT(page, HasSubstr(".SH ENVIRONMENT\n.TP\n\\fBTOOL_HOME\\fR\n"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS\n.TP\n\\fB0\\fR\ndone\n"));
}

TEST(FormatManualTest, NoTextIsARequest) {
  const std::string page = FormatManual(Tool());
  EXPECT_THAT(page, HasSubstr("\\&'quoted' first\n"));
  EXPECT_THAT(page, HasSubstr("\\&.hidden? \\en stays\n"));
  EXPECT_THAT(page, Not(HasSubstr("\n.hidden")));
}

}  // namespace
}  // namespace steadystate::client::manual_test
