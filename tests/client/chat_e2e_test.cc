// Goal: a chat keeps one session, takes turns back and copies them, and leaves
// behind what it says. Method: the demo model, whose tokens are bytes, and the
// program with lines from a pipe; its answers are checked against `generate`.
#include <fcntl.h>
#include <pty.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cli_fixture.h"

namespace steadystate::chat_e2e_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class ChatTest : public CliFixture {
 protected:
  ChatTest() : CliFixture("deploy/models/demo") {}

  // `printf LINES | steadystate chat ARGUMENTS`, drawing nothing at random.
  Outcome Chat(const std::string& lines, const std::string& arguments) {
    return RunShell(
        absl::StrCat("printf '", lines, "' | ", kClient,
                     " chat -t 0 --address ", address_, " ", arguments),
        directory_.path());
  }

  int Position(const std::string& id) {
    return Json("session get " + id)["position"];
  }
};

TEST_F(ChatTest, ATurnIsTextBetweenPrefixes) {
  // Blanks around an answer are not shown.
  const std::string arguments = "-t 0 -n 12 --logit_bias 90=100";
  const std::string answer =
      Print("generate 'User: Hi\n\nAssistant:' " + arguments);
  EXPECT_EQ(answer, std::string(12, 'Z'));
  const Outcome outcome = Chat("Hi\\n", "-n 12 --logit_bias 90=100 -s kept");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, answer + "\n");
  EXPECT_EQ(outcome.err, "");
  // "User: Hi", two line ends, "Assistant:", the answer.
  EXPECT_EQ(Position("kept"), 8 + 2 + 10 + 12);
}

TEST_F(ChatTest, AFreshSessionIsDeletedAndANamedOneGoesOn) {
  EXPECT_EQ(Chat("Hi\\n", "-n 3").code, 0);
  EXPECT_EQ(Print("session list"), "");
  EXPECT_EQ(Chat("Hi\\n", "-n 3 --session ada --system Terse.").code, 0);
  EXPECT_EQ(Position("ada"), 6 + 8 + 12 + 3);
  EXPECT_EQ(Chat("Hi\\n", "-n 3 --session ada").code, 0);
  // The second turn is set apart by two line ends.
  EXPECT_EQ(Position("ada"), 29 + 2 + 8 + 12 + 3);
  EXPECT_THAT(Chat("", "--session ada --system Terse.").err,
              HasSubstr("sessions/ada is at 54 tokens already"));
}

TEST_F(ChatTest, UndoTakesTheLastTurnBack) {
  const Outcome outcome =
      Chat("One\\nTwo\\n/undo\\nTwo\\n/undo\\n/undo\\n", "-n 5 -s ada");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<std::string> answers = absl::StrSplit(outcome.out, '\n');
  ASSERT_EQ(answers.size(), 4u) << outcome.out;
  EXPECT_EQ(answers[1], answers[2]);
  EXPECT_EQ(outcome.err,
            "back at 26 tokens\nback at 26 tokens\nback at 0 tokens\n");
  EXPECT_EQ(Position("ada"), 0);
  const Outcome none = Chat("/undo\\n", "-s ada");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("no turn of this chat to take back"));
}

TEST_F(ChatTest, ForkAndSaveKeepTheSessionAsItIs) {
  const Outcome outcome =
      Chat("One\\n/fork copy\\n/save point\\nTwo\\n", "-n 5 -s ada");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "sessions/copy; this chat goes on in sessions/ada\n"
            "checkpoints/point\n");
  EXPECT_EQ(Position("copy"), 26);
  EXPECT_THAT(Print("checkpoint list"), StartsWith("checkpoints/point  26 "));
  EXPECT_GT(Position("ada"), 26);
  EXPECT_THAT(Chat("/fork copy\\n", "-s ada").err,
              HasSubstr("SESSION_ALREADY_EXISTS"));
}

TEST_F(ChatTest, AnAnswerEndsWhereTheModelSpeaksForTheUser) {
  // 'Z' is all that it says, and what the user's lines begin with.
  const Outcome outcome = Chat(
      "a\\nb\\n",
      "-n 50 -s ada --logit_bias 90=100 --user_prefix ZZ --assistant_prefix =");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "\n\n");
  // "ZZa=", and "ZZ" of the model, which need not be said again: "b=", "ZZ".
  EXPECT_EQ(Position("ada"), 4 + 2 + 2 + 2);
}

TEST_F(ChatTest, CommandsAreExplained) {
  const Outcome help = Chat("/help\\n/quit\\nnever said\\n", "-n 1");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out, "");
  EXPECT_THAT(help.err, HasSubstr("/fork NAME"));
  EXPECT_THAT(Chat("/udno\\n", "").err, HasSubstr("did you mean /undo?"));
  EXPECT_THAT(Chat("/fork\\n", "").err, HasSubstr("/fork needs a name"));
  EXPECT_THAT(Chat("/undo 2\\n", "").err,
              HasSubstr("/undo takes nothing more, and '2' came with it; each "
                        "/undo takes one turn back"));
  EXPECT_EQ(Chat("//\\n", "-n 0 -s slash").code, 0);
  EXPECT_EQ(Position("slash"), 7 + 12);
  EXPECT_THAT(Chat("\\377\\n", "").err, HasSubstr("must be UTF-8"));
}

// A chat that a test talks to while it runs.
class RunningChat {
 public:
  // `launcher` runs the command that is put in its place of COMMAND.
  RunningChat(const std::string& command, const std::string& launcher,
              const TempDirectory& directory)
      : lines_(directory.path() + "/lines"),
        log_(directory.path() + "/chat_log"),
        made_(mkfifo(lines_.c_str(), 0600)),
        process_(
            {"/bin/sh", "-c",
             absl::StrCat("exec ",
                          absl::StrReplaceAll(launcher, {{"COMMAND", command}}),
                          " <", lines_)},
            log_),
        writer_(open(lines_.c_str(), O_WRONLY | O_CLOEXEC)) {}
  ~RunningChat() { close(writer_); }
  RunningChat(const RunningChat&) = delete;
  RunningChat& operator=(const RunningChat&) = delete;

  void Say(const std::string& text) {
    EXPECT_EQ(write(writer_, text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

  // Reads until its output has this text.
  void Await(const std::string& text) {
    std::string output;
    while (!absl::StrContains(output, text)) {
      const std::string next = process_.Read(1);
      ASSERT_FALSE(next.empty()) << output;
      output += next;
    }
  }

  Process& process() { return process_; }
  std::string Log() const { return ReadWholeFile(log_); }

 private:
  const std::string lines_;
  const std::string log_;
  const int made_;
  Process process_;
  const int writer_;
};

bool CanMakeTerminals() {
  int terminal = -1;
  int user = -1;
  if (openpty(&terminal, &user, nullptr, nullptr, nullptr) != 0) return false;
  close(terminal);
  close(user);
  return true;
}

// On a terminal, which script(1) makes: what is written to it is typed there.
// At Ctrl-C a terminal throws away what has just been printed, unless it is
// told not to (noflsh).
TEST_F(ChatTest, CtrlCCutsTheAnswerAndNotTheChat) {
  if (!CanMakeTerminals()) GTEST_SKIP() << "no pseudo-terminals";
  RunningChat chat(absl::StrCat(kClient, " chat -n 2000 -s ada -a ", address_,
                                " --logit_bias 90=100"),
                   "script -qec \"stty noflsh; exec COMMAND\" /dev/null",
                   directory_);
  chat.Await("sessions/ada; /help");
  chat.Say("a\n");
  chat.Await("ZZZZZZZZZZ");
  chat.Say("\x03");
  chat.Await("> ");
  chat.Say("b\n");
  chat.Await("ZZZZZZZZZZ");
  chat.Say("\x03");
  chat.Await("> ");
  chat.Say("\x03");
  chat.Await("/quit or Ctrl-D ends the chat");
  chat.Say("/undo\n");
  chat.Await("back at ");
  chat.Say("/udno\n");
  chat.Await("did you mean /undo?");
  chat.Say("/quit\n");
  EXPECT_EQ(chat.process().Wait(), 0);
  EXPECT_GT(Position("ada"), 10);
}

TEST_F(ChatTest, SignalsEndAChatOverAPipe) {
  RunningChat chat(absl::StrCat(kClient, " chat -n none -s ada -a ", address_,
                                " --logit_bias 90=100"),
                   "COMMAND", directory_);
  chat.Say("a\n");
  chat.Await("ZZZZZZZZZZ");
  chat.process().Signal(SIGINT);
  chat.Await("\n");
  chat.Say("b\n");
  chat.Await("ZZZZZZZZZZ");
  chat.process().Signal(SIGTERM);
  EXPECT_EQ(chat.process().Wait(), 130);
  EXPECT_THAT(chat.Log(), IsEmpty());
}

TEST_F(ChatTest, AnInterruptWithoutAnAnswerEndsAChatOverAPipe) {
  RunningChat chat(absl::StrCat(kClient, " chat -n 1 -a ", address_), "COMMAND",
                   directory_);
  chat.Say("a\n");
  chat.Await("\n");
  chat.process().Signal(SIGINT);
  EXPECT_EQ(chat.process().Wait(), 130);
  EXPECT_EQ(Print("session list"), "");
}

TEST_F(ChatTest, AClosedTerminalLeavesNoSession) {
  RunningChat chat(absl::StrCat(kClient, " chat -n none -a ", address_,
                                " --logit_bias 90=100"),
                   "COMMAND", directory_);
  chat.Say("a\n");
  chat.Await("ZZZZZZZZZZ");
  chat.process().Signal(SIGHUP);
  EXPECT_EQ(chat.process().Wait(), 130);
  EXPECT_EQ(Print("session list"), "");
}

// With nohup it goes on.
TEST_F(ChatTest, AHangupThatIsIgnoredEndsNothing) {
  RunningChat chat(
      absl::StrCat(kClient, " chat -n 4 -a ", address_, " --logit_bias 90=100"),
      "nohup COMMAND", directory_);
  chat.Say("a\n");
  chat.Await("ZZZZ");
  chat.process().Signal(SIGHUP);
  chat.Say("b\n");
  chat.Await("ZZZZ");
  chat.Say("/quit\n");
  EXPECT_EQ(chat.process().Wait(), 0);
}

}  // namespace
}  // namespace steadystate::chat_e2e_test
