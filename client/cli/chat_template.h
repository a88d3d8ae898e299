#ifndef STEADYSTATE_CLIENT_CLI_CHAT_TEMPLATE_H_
#define STEADYSTATE_CLIENT_CLI_CHAT_TEMPLATE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/chat_form.h"
#include "client/jinja/template.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// A model's own chat template, for a conversation without tools: it is rendered
// as transformers would, and each part of what it writes is known to be the
// template's or somebody's words.
//
// Answers are not given to it, but a word that stands for each: they stay in a
// session as they were absorbed.
class ChatTemplate {
 public:
  // FAILED_PRECONDITION, with what to do: the template uses something that is
  // not understood, refuses this system message, or does not write messages in
  // turn. `system` empty: there is none.
  static absl::StatusOr<ChatTemplate> Of(const v1::Model& model,
                                         std::string system);

  // The prompt of a session's first turn. Errors as those of Of.
  absl::StatusOr<Prompt> First(absl::string_view line,
                               absl::Time now = absl::Now()) const;

  // What is to follow the answer to the last of `said`, lines of the turns
  // before this one; none: of a conversation that others began. `at_end`: the
  // session has absorbed answer_end() with that answer.
  absl::StatusOr<Prompt> Next(const std::vector<std::string>& said,
                              absl::string_view line, bool at_end,
                              absl::Time now = absl::Now()) const;

  // The mark that ends an answer.
  const std::string& answer_end() const { return answer_end_; }

  // What looks like a mark around what is said, each once.
  const std::vector<std::string>& marks() const { return marks_; }

 private:
  ChatTemplate(jinja::Template written, const v1::Model& model,
               std::string system)
      : template_(std::move(written)),
        bos_token_(model.bos_token()),
        eos_token_(model.eos_token()),
        system_(std::move(system)) {}

  absl::StatusOr<jinja::Text> Render(jinja::List messages, bool prompt,
                                     absl::Time now) const;
  jinja::List Beginning() const;
  // What stands after the last answer in these messages.
  absl::StatusOr<jinja::Text> AfterAnswer(jinja::List messages, bool prompt,
                                          absl::Time now) const;
  absl::Status FindEnd();
  absl::Status CheckOpening() const;
  absl::Status FindMarks();

  jinja::Template template_;
  std::string bos_token_;
  std::string eos_token_;
  std::string system_;
  std::string answer_end_;
  std::vector<std::string> marks_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_CHAT_TEMPLATE_H_
