#include "client/cli/chat_template.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace steadystate::client {
namespace {

using jinja::Author;
using jinja::kTemplate;
using jinja::List;
using jinja::Text;
using jinja::Value;

constexpr Author kSaid = 1;
constexpr Author kAnswer = 2;
constexpr Author kLastAnswer = 3;
// Stands for an answer, and for a line where there is none.
constexpr char kWord[] = "word";
constexpr size_t kMaxMarks = 32;

absl::Status Refused(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the model's chat template ", what,
      ". Say how turns are written: by --template chatml or llama3, or by "
      "--user_prefix and --assistant_prefix; or use the Python package, whose "
      "Chat renders any template"));
}

Value Message(absl::string_view role, absl::string_view content,
              Author author) {
  jinja::Map message;
  message.Set("role", jinja::MakeText(role));
  message.Set("content", Text(std::string(content), author));
  return jinja::MakeMap(std::move(message));
}

void AddTurn(List& messages, absl::string_view line) {
  for (const Value& message : messages) {
    // It was the last answer until now.
    const auto& members = *message.As<jinja::MapPtr>();
    const Text* content = members->Find("content")->As<Text>();
    if (content->authors.empty() || content->authors[0] != kLastAnswer) {
      continue;
    }
    members->Set("content", Text(content->bytes, kAnswer));
  }
  messages.push_back(Message("user", line, kSaid));
  messages.push_back(Message("assistant", kWord, kLastAnswer));
}

Prompt PartsOf(const Text& text) {
  Prompt parts;
  for (size_t begin = 0; begin < text.bytes.size();) {
    const bool literal = text.authors[begin] != kTemplate;
    size_t end = begin;
    while (end < text.bytes.size() &&
           (text.authors[end] != kTemplate) == literal) {
      ++end;
    }
    parts.push_back({text.bytes.substr(begin, end - begin), literal});
    begin = end;
  }
  return parts;
}

// Where a mark such as "<|im_end|>" or "[INST]" that begins at `begin` ends;
// `begin`: there is none.
size_t EndOfMark(absl::string_view text, size_t begin) {
  const char close = text[begin] == '<' ? '>' : ']';
  if (text[begin] != '<' && text[begin] != '[') return begin;
  for (size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == close) return i + 1;
    if (text[i] == text[begin] ||
        absl::ascii_isspace(static_cast<unsigned char>(text[i]))) {
      break;
    }
  }
  return begin;
}

}  // namespace

absl::StatusOr<ChatTemplate> ChatTemplate::Of(const v1::Model& model,
                                              std::string system) {
  auto parsed = jinja::Template::Parse(model.chat_template());
  if (!parsed.ok()) {
    return Refused(
        absl::StrCat("cannot be followed: ", parsed.status().message()));
  }
  ChatTemplate made(*std::move(parsed), model, std::move(system));
  for (const auto& step : {&ChatTemplate::FindEnd, &ChatTemplate::FindMarks}) {
    const absl::Status done = (made.*step)();
    if (!done.ok()) return done;
  }
  const absl::Status checked = made.CheckOpening();
  if (!checked.ok()) return checked;
  return made;
}

absl::StatusOr<Text> ChatTemplate::Render(List messages, bool prompt,
                                          absl::Time now) const {
  jinja::Variables variables = {
      {"messages", jinja::MakeList(std::move(messages))},
      {"add_generation_prompt", prompt},
      {"tools", jinja::None()},
      {"documents", jinja::None()},
  };
  // As transformers leaves out tokens that there are not.
  for (const auto& [name, token] :
       {std::pair{"bos_token", bos_token_}, {"eos_token", eos_token_}}) {
    if (!token.empty()) variables[name] = jinja::MakeText(token);
  }
  auto text = template_.Render(std::move(variables), now);
  if (absl::IsInvalidArgument(text.status())) {
    return Refused(
        absl::StrCat("refuses this conversation: ", text.status().message()));
  }
  if (!text.ok()) {
    return Refused(
        absl::StrCat("cannot be followed: ", text.status().message()));
  }
  return text;
}

List ChatTemplate::Beginning() const {
  List messages;
  if (!system_.empty()) messages.push_back(Message("system", system_, kSaid));
  return messages;
}

absl::StatusOr<Prompt> ChatTemplate::First(absl::string_view line,
                                           absl::Time now) const {
  List messages = Beginning();
  messages.push_back(Message("user", line, kSaid));
  const auto text = Render(std::move(messages), /*prompt=*/true, now);
  if (!text.ok()) return text.status();
  return PartsOf(*text);
}

absl::StatusOr<Text> ChatTemplate::AfterAnswer(List messages, bool prompt,
                                               absl::Time now) const {
  auto text = Render(std::move(messages), prompt, now);
  if (!text.ok()) return text.status();
  const size_t begin = text->authors.find(kLastAnswer);
  const size_t end = text->authors.rfind(kLastAnswer) + 1;
  if (begin == std::string::npos ||
      text->bytes.substr(begin, end - begin) != kWord) {
    return Refused("does not write answers as they were given");
  }
  return text->Part(end, text->bytes.size());
}

absl::StatusOr<Prompt> ChatTemplate::Next(const std::vector<std::string>& said,
                                          absl::string_view line, bool at_end,
                                          absl::Time now) const {
  List messages = Beginning();
  for (const std::string& earlier : said) AddTurn(messages, earlier);
  if (said.empty()) AddTurn(messages, kWord);
  messages.push_back(Message("user", line, kSaid));
  const auto text = AfterAnswer(std::move(messages), /*prompt=*/true, now);
  if (!text.ok()) return text.status();
  const Text bare = jinja::Strip(*text, jinja::Side::kLeft);
  const size_t blanks = text->bytes.size() - bare.bytes.size();
  const size_t absorbed = blanks + answer_end_.size();
  if (!absl::StartsWith(bare.bytes, answer_end_) ||
      text->authors.substr(0, absorbed) != std::string(absorbed, kTemplate)) {
    return Refused("ends answers in more than one way");
  }
  return PartsOf(text->Part(at_end ? absorbed : 0, text->bytes.size()));
}

absl::Status ChatTemplate::FindEnd() {
  List messages = Beginning();
  AddTurn(messages, kWord);
  const auto text =
      AfterAnswer(std::move(messages), /*prompt=*/false, absl::Now());
  if (!text.ok()) return text.status();
  answer_end_ = jinja::Strip(*text, jinja::Side::kBoth).bytes;
  if (answer_end_.empty() ||
      std::any_of(answer_end_.begin(), answer_end_.end(), [](char byte) {
        return absl::ascii_isspace(static_cast<unsigned char>(byte));
      })) {
    return Refused("does not end an answer with one mark");
  }
  return absl::OkStatus();
}

// What an answer begins with is to be written before it comes.
absl::Status ChatTemplate::CheckOpening() const {
  const absl::Time now = absl::Now();
  List messages = Beginning();
  messages.push_back(Message("user", kWord, kSaid));
  const auto with = Render(messages, /*prompt=*/true, now);
  if (!with.ok()) return with.status();
  const auto without = Render(messages, /*prompt=*/false, now);
  if (!without.ok()) return without.status();
  if (with->bytes != without->bytes) return absl::OkStatus();
  messages.push_back(Message("assistant", kWord, kLastAnswer));
  const auto answered = Render(messages, /*prompt=*/false, now);
  if (!answered.ok()) return answered.status();
  const size_t answer = answered->authors.find(kLastAnswer);
  const std::string before = answered->bytes.substr(0, answer);
  if (absl::StartsWith(before, with->bytes) &&
      absl::StripAsciiWhitespace(before.substr(with->bytes.size())).empty()) {
    return absl::OkStatus();
  }
  return Refused("does not write what an answer begins with");
}

absl::Status ChatTemplate::FindMarks() {
  const auto first = First(kWord);
  if (!first.ok()) return first.status();
  auto parts = Next({}, kWord, /*at_end=*/false);
  if (!parts.ok()) return parts.status();
  if (!bos_token_.empty() && !first->front().literal &&
      absl::StartsWith(first->front().text, bos_token_)) {
    marks_.push_back(bos_token_);
  }
  marks_.push_back(answer_end_);
  for (const PromptPart& part : *parts) {
    if (part.literal) continue;
    for (size_t begin = 0; begin < part.text.size();) {
      const size_t end = EndOfMark(part.text, begin);
      const std::string mark = part.text.substr(begin, end - begin);
      if (!mark.empty() && marks_.size() < kMaxMarks &&
          std::find(marks_.begin(), marks_.end(), mark) == marks_.end()) {
        marks_.push_back(mark);
      }
      begin = std::max(end, begin + 1);
    }
  }
  return absl::OkStatus();
}

}  // namespace steadystate::client
