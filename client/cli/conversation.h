#ifndef STEADYSTATE_CLIENT_CLI_CONVERSATION_H_
#define STEADYSTATE_CLIENT_CLI_CONVERSATION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/cli/chat_form.h"

namespace steadystate::client {

// How the turns of a conversation are written, and where they began, so that
// they can be taken back. Knows nothing of a server. Thread-compatible.
class Conversation {
 public:
  // Turns that can be taken back; older ones are forgotten.
  static constexpr size_t kMaxTurns = 4096;
  // Bytes of what was said in them that are kept; of older turns it is "".
  static constexpr size_t kMaxSaidBytes = size_t{4} << 20;

  // `user_prefix`: what comes before what the user says, such as "\n\nUser: ",
  // and `assistant_prefix` before the answer.
  Conversation(std::string user_prefix, std::string assistant_prefix)
      : user_prefix_(std::move(user_prefix)),
        assistant_prefix_(std::move(assistant_prefix)) {}

  // Turns as messages of a template's form.
  explicit Conversation(const ChatForm& form)
      : user_prefix_(form.Before("user")),
        assistant_prefix_(
            absl::StrCat(form.end, form.after_end, form.BeforeAnswer())),
        answer_end_(form.end),
        after_answer_(form.after_end),
        at_stop_(true) {}

  // Turns that a template writes, which ends answers with `answer_end`:
  // PromptOf is not called.
  explicit Conversation(std::string answer_end)
      : answer_end_(std::move(answer_end)), at_stop_(true) {}

  // What ends an answer: a message's end in a template's form, else the user's
  // prefix without blanks at its end, and of line ends before it at most one:
  // models end a line in their own ways. "" if the prefix is blank.
  std::string stop() const;

  // What the session is to absorb so that the user has said `line`. After an
  // answer that the stop string ended, which the session has absorbed with it,
  // less that; at position 0 without the line ends that set a turn apart. In a
  // template's form an answer that was cut is ended first; before the first
  // turn of this object the session is taken to be where an answer has ended.
  Prompt PromptOf(absl::string_view line, uint64_t position) const;

  // What the user has said in the turns so far, first to last.
  std::vector<std::string> Said() const;

  // True if the session's last text is stop().
  bool at_stop() const { return at_stop_; }

  // A turn, in which the user says `said`, begins at this position.
  void Begin(uint64_t position, absl::string_view said = "");

  // The answer of the turn has ended; `stopped`: with the stop string, or with
  // the token that stands for it.
  void End(bool stopped) { at_stop_ = stopped; }

  // Where the last turn began; nothing if none is known.
  std::optional<uint64_t> LastBegin() const;

  // The session is where the last turn began.
  // REQUIRES: LastBegin().
  void Undo();

 private:
  struct Turn {
    uint64_t position;
    bool at_stop;  // before it
    std::string said;
  };

  const std::string user_prefix_;
  const std::string assistant_prefix_;
  const std::string answer_end_;  // both: "" but in a template's form
  const std::string after_answer_;
  std::deque<Turn> turns_;
  bool at_stop_ = false;  // the session's last text is the stop string
};

// Sets an answer free of the blanks around it, piece by piece.
class BlankTrimmer {
 public:
  // What can be shown once `delta` has come.
  std::string Add(absl::string_view delta);

 private:
  bool begun_ = false;
  std::string blanks_;
};

// "\n", "\t" and "\\" in `text` as the characters that they stand for: shells
// do not make it easy to write these.
std::string Unescaped(absl::string_view text);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_CONVERSATION_H_
