// Goal: a conversation reads as the model was taught, whatever ended an answer
// and whatever was taken back. Method: turns by hand.
#include "client/cli/conversation.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::client::conversation_test {
namespace {

// The turn, of which what the user says, and only that, is literal.
std::string TextOf(const Conversation& chat, const std::string& line,
                   uint64_t position) {
  std::string text;
  std::string said;
  for (const PromptPart& part : chat.PromptOf(line, position)) {
    text += part.text;
    if (part.literal) said += part.text;
  }
  EXPECT_EQ(said, line);
  return text;
}

TEST(ConversationTest, TurnsAreSetApartButNotTheFirst) {
  Conversation chat("\n\nUser: ", "\n\nAssistant:");
  EXPECT_EQ(TextOf(chat, "Hi", 0), "User: Hi\n\nAssistant:");
  chat.Begin(0);
  chat.End(/*stopped=*/false);
  EXPECT_EQ(TextOf(chat, "And?", 30), "\n\nUser: And?\n\nAssistant:");
}

// The session has absorbed the stop string with the answer.
TEST(ConversationTest, TheStopStringIsNotSaidTwice) {
  Conversation chat("\n\nUser: ", "\n\nAssistant:");
  EXPECT_EQ(chat.stop(), "\nUser:");
  chat.Begin(0);
  chat.End(/*stopped=*/true);
  EXPECT_EQ(TextOf(chat, "And?", 30), " And?\n\nAssistant:");
  chat.Begin(30);
  chat.End(/*stopped=*/false);
  EXPECT_EQ(TextOf(chat, "So?", 60), "\n\nUser: So?\n\nAssistant:");
}

TEST(ConversationTest, StopStringsComeFromAnyPrefix) {
  EXPECT_EQ(Conversation("### Ask:\n", "").stop(), "### Ask:");
  EXPECT_EQ(Conversation("\n", "").stop(), "");
  EXPECT_EQ(Conversation("", "").stop(), "");
}

// A message's end that the model has written is not written again, and one that
// it has not is.
TEST(ConversationTest, MessagesOfAFormAreEndedOnce) {
  const ChatForm form = {"", "<", ">", "</>", "\n"};
  Conversation chat(form);
  EXPECT_EQ(chat.stop(), "</>");
  EXPECT_EQ(TextOf(chat, "Hi", 0), "<user>Hi</>\n<assistant>");
  // A session that others have begun.
  EXPECT_EQ(TextOf(chat, "Hi", 9), "\n<user>Hi</>\n<assistant>");
  chat.Begin(0);
  chat.End(/*stopped=*/true);
  EXPECT_EQ(TextOf(chat, "And?", 30), "\n<user>And?</>\n<assistant>");
  chat.Begin(30);
  chat.End(/*stopped=*/false);
  EXPECT_EQ(TextOf(chat, "So?", 60), "</>\n<user>So?</>\n<assistant>");
  chat.Undo();
  EXPECT_EQ(TextOf(chat, "And?", 30), "\n<user>And?</>\n<assistant>");
}

TEST(ConversationTest, UndoGoesBackTurnByTurn) {
  Conversation chat("\nQ: ", "\nA:");
  EXPECT_EQ(chat.LastBegin(), std::nullopt);
  chat.Begin(0);
  chat.End(/*stopped=*/true);
  chat.Begin(30);
  chat.End(/*stopped=*/false);
  EXPECT_EQ(chat.LastBegin(), 30u);
  chat.Undo();
  // As before that turn: after a stop string.
  EXPECT_EQ(TextOf(chat, "x", 30), " x\nA:");
  EXPECT_EQ(chat.LastBegin(), 0u);
  chat.Undo();
  EXPECT_EQ(chat.LastBegin(), std::nullopt);
}

TEST(ConversationTest, RemembersABoundedNumberOfTurns) {
  Conversation chat("Q", "A");
  for (size_t i = 0; i < Conversation::kMaxTurns + 5; ++i) chat.Begin(i);
  for (size_t i = 0; i < Conversation::kMaxTurns; ++i) {
    ASSERT_TRUE(chat.LastBegin().has_value());
    chat.Undo();
  }
  EXPECT_EQ(chat.LastBegin(), std::nullopt);
}

TEST(ConversationTest, RemembersWhatWasSaidWithinABound) {
  Conversation chat("</>");
  EXPECT_EQ(chat.stop(), "</>");
  EXPECT_TRUE(chat.at_stop());
  chat.Begin(0, "a");
  chat.Begin(9, "b");
  EXPECT_FALSE(chat.at_stop());
  EXPECT_EQ(chat.Said(), (std::vector<std::string>{"a", "b"}));
  chat.Undo();
  EXPECT_EQ(chat.Said(), std::vector<std::string>{"a"});
  const std::string most(Conversation::kMaxSaidBytes, 'x');
  chat.Begin(9, most);
  EXPECT_EQ(chat.Said(), (std::vector<std::string>{"", most}));
}

TEST(BlankTrimmerTest, HoldsBlanksBackUntilMoreComes) {
  BlankTrimmer trimmer;
  EXPECT_EQ(trimmer.Add(" \n"), "");
  EXPECT_EQ(trimmer.Add(" Hello \n"), "Hello");
  EXPECT_EQ(trimmer.Add("\n"), "");
  EXPECT_EQ(trimmer.Add("you"), " \n\nyou");
  const std::string many(10000, '\n');
  EXPECT_EQ(trimmer.Add(many), many);
}

TEST(UnescapedTest, ReadsLineEnds) {
  EXPECT_EQ(Unescaped("\\n\\nUser:\\t\\\\n"), "\n\nUser:\t\\n");
  EXPECT_EQ(Unescaped("plain"), "plain");
}

}  // namespace
}  // namespace steadystate::client::conversation_test
