#include "client/cli/conversation.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace steadystate::client {
namespace {

// Blanks of an answer that are not shown yet; more than that are.
constexpr size_t kMaxBlanks = 4096;

}  // namespace

std::string Conversation::stop() const {
  if (!answer_end_.empty()) return answer_end_;
  const absl::string_view words = absl::StripAsciiWhitespace(user_prefix_);
  if (words.empty()) return "";
  return absl::StrCat(absl::StartsWith(user_prefix_, "\n") ? "\n" : "", words);
}

Prompt Conversation::PromptOf(absl::string_view line, uint64_t position) const {
  absl::string_view prefix = user_prefix_;
  std::string before;
  if (position == 0) {
    prefix = absl::StripLeadingAsciiWhitespace(prefix);
  } else if (!answer_end_.empty()) {
    before = absl::StrCat(at_stop_ ? "" : answer_end_, after_answer_);
  } else if (at_stop_) {
    const std::string absorbed = stop();
    prefix.remove_prefix(prefix.find(absorbed) + absorbed.size());
  }
  return {{.text = absl::StrCat(before, prefix)},
          {.text = std::string(line), .literal = true},
          {.text = assistant_prefix_}};
}

std::vector<std::string> Conversation::Said() const {
  std::vector<std::string> said;
  for (const Turn& turn : turns_) said.push_back(turn.said);
  return said;
}

void Conversation::Begin(uint64_t position, absl::string_view said) {
  turns_.push_back({position, at_stop_, std::string(said)});
  if (turns_.size() > kMaxTurns) turns_.pop_front();
  size_t bytes = 0;
  for (auto turn = turns_.rbegin(); turn != turns_.rend(); ++turn) {
    bytes += turn->said.size();
    if (bytes > kMaxSaidBytes) turn->said.clear();
  }
  at_stop_ = false;
}

std::optional<uint64_t> Conversation::LastBegin() const {
  if (turns_.empty()) return std::nullopt;
  return turns_.back().position;
}

void Conversation::Undo() {
  at_stop_ = turns_.back().at_stop;
  turns_.pop_back();
}

std::string BlankTrimmer::Add(absl::string_view delta) {
  if (!begun_) delta = absl::StripLeadingAsciiWhitespace(delta);
  if (delta.empty()) return "";
  begun_ = true;
  std::string text = absl::StrCat(blanks_, delta);
  const size_t shown = absl::StripTrailingAsciiWhitespace(text).size();
  blanks_ = text.substr(shown);
  if (blanks_.size() > kMaxBlanks) {
    blanks_.clear();
    return text;
  }
  text.resize(shown);
  return text;
}

std::string Unescaped(absl::string_view text) {
  return absl::StrReplaceAll(text,
                             {{"\\n", "\n"}, {"\\t", "\t"}, {"\\\\", "\\"}});
}

}  // namespace steadystate::client
