#include "server/text/pre_tokenizer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/pattern.h"
#include "server/text/regex.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

using nlohmann::json;

// The words of GPT-2.
constexpr absl::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";

// Appends the words of a piece but empty ones; the first of them is as first as
// the piece.
template <typename Piece>
void AppendWords(const std::vector<absl::string_view>& words, bool first,
                 std::vector<Piece>& to) {
  for (const absl::string_view word : words) {
    if (word.empty()) continue;
    to.push_back({std::string(word), first});
    first = false;
  }
}

}  // namespace

absl::StatusOr<PreTokenizer::Step> PreTokenizer::MakeByteLevel(
    const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool prefix_space,
                               BoolMember(step, "add_prefix_space", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool use_regex,
                               BoolMember(step, "use_regex", true));
  STEADYSTATE_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(kGpt2Pattern));
  const auto words = std::make_shared<const Regex>(std::move(regex));
  const auto cut = [=](const Piece& piece,
                       std::vector<Piece>& to) -> absl::Status {
    const bool add_space = prefix_space && !absl::StartsWith(piece.text, " ");
    const std::string text = absl::StrCat(add_space ? " " : "", piece.text);
    if (!use_regex) {
      to.push_back({ToByteAlphabet(text), piece.first});
      return absl::OkStatus();
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Stretch> stretches,
                                 words->Cut(text));
    bool first = piece.first;
    for (const Stretch& word : stretches) {
      to.push_back({ToByteAlphabet(word.text), first});
      first = false;
    }
    return absl::OkStatus();
  };
  const Growth space = {.added = prefix_space ? 1.0 : 0.0};
  return Step{cut, space.Then(kByteAlphabetGrowth)};
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::MakeSplit(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::shared_ptr<const Regex> pattern,
                               PatternOf(step));
  STEADYSTATE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                               BehaviorOf(step, ""));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool invert,
                               BoolMember(step, "invert", false));
  const auto cut = [=](const Piece& piece,
                       std::vector<Piece>& to) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(std::vector<Stretch> stretches,
                                 pattern->Cut(piece.text));
    for (Stretch& stretch : stretches) stretch.matched ^= invert;
    AppendWords(Split(stretches, behavior), piece.first, to);
    return absl::OkStatus();
  };
  return Step{cut, {}};
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::MakeDigits(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool individual,
                               BoolMember(step, "individual_digits", false));
  const SplitBehavior behavior =
      individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
  const auto cut = [=](const Piece& piece,
                       std::vector<Piece>& to) -> absl::Status {
    AppendWords(Split(CutAt(IsNumber, piece.text), behavior), piece.first, to);
    return absl::OkStatus();
  };
  return Step{cut, {}};
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::MakePunctuation(
    const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                               BehaviorOf(step, "Isolated"));
  const auto cut = [=](const Piece& piece,
                       std::vector<Piece>& to) -> absl::Status {
    AppendWords(Split(CutAt(IsPunctuation, piece.text), behavior), piece.first,
                to);
    return absl::OkStatus();
  };
  return Step{cut, {}};
}

absl::StatusOr<PreTokenizer::Step> PreTokenizer::MakeMetaspace(
    const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string mark,
                               StringMember(step, "replacement"));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool prefix_space,
                               BoolMember(step, "add_prefix_space", true));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string scheme,
      StringMember(step, "prepend_scheme", prefix_space ? "always" : "never"));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool split,
                               BoolMember(step, "split", true));
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return absl::InvalidArgumentError(
        absl::StrCat("'prepend_scheme' is \"", scheme.substr(0, 80),
                     "\", not \"always\", \"first\" or \"never\""));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(Regex regex, Regex::OfLiteral(mark));
  const auto pattern = std::make_shared<const Regex>(std::move(regex));
  const auto cut = [=](const Piece& piece,
                       std::vector<Piece>& to) -> absl::Status {
    const std::string marked = absl::StrReplaceAll(piece.text, {{" ", mark}});
    const bool wanted =
        (scheme == "always" || (scheme == "first" && piece.first)) &&
        !absl::StartsWith(marked, mark);
    const std::string text = absl::StrCat(wanted ? mark : "", marked);
    if (!split) {
      to.push_back({text, piece.first});
      return absl::OkStatus();
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Stretch> stretches,
                                 pattern->Cut(text));
    AppendWords(Split(stretches, SplitBehavior::kMergedWithNext), piece.first,
                to);
    return absl::OkStatus();
  };
  const auto mark_bytes = static_cast<double>(mark.size());
  return Step{cut,
              {.factor = std::max(mark_bytes, 1.0),
               .added = scheme == "never" ? 0.0 : mark_bytes}};
}

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const json& description) {
  PreTokenizer pre_tokenizer;
  if (description.is_null()) return pre_tokenizer;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(description, "the pre-tokenizer"));
  if (type != "Sequence") {
    STEADYSTATE_RETURN_IF_ERROR(pre_tokenizer.Add(description));
    return pre_tokenizer;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const auto* steps,
                               StepsMember(description, "pretokenizers"));
  for (const auto& step : *steps) {
    STEADYSTATE_RETURN_IF_ERROR(pre_tokenizer.Add(step));
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::Add(const json& description) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(description, "a pre-tokenizer"));
  using Maker = absl::StatusOr<Step> (*)(const nlohmann::json&);
  constexpr std::pair<absl::string_view, Maker> kMakers[] = {
      {"ByteLevel", &MakeByteLevel}, {"Split", &MakeSplit},
      {"Digits", &MakeDigits},       {"Punctuation", &MakePunctuation},
      {"Metaspace", &MakeMetaspace},
  };
  for (const auto& [name, maker] : kMakers) {
    if (name != type) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(Step step, maker(description));
    // Any step may see a text cut to single bytes, and lengthen each.
    growth_ = growth_.Then({.factor = step.growth.PerByte()});
    steps_.push_back(std::move(step));
    byte_level_ |= type == "ByteLevel";
    return absl::OkStatus();
  }
  return UnsupportedType("a pre-tokenizer", type);
}

absl::StatusOr<std::vector<std::string>> PreTokenizer::Words(std::string text,
                                                             bool first) const {
  std::vector<Piece> pieces;
  pieces.push_back({std::move(text), first});
  for (const Step& step : steps_) {
    std::vector<Piece> parts;
    for (const Piece& piece : pieces) {
      if (piece.text.empty()) continue;
      STEADYSTATE_RETURN_IF_ERROR(step.apply(piece, parts));
    }
    pieces = std::move(parts);
  }
  std::vector<std::string> words;
  words.reserve(pieces.size());
  for (Piece& piece : pieces) {
    if (!piece.text.empty()) words.push_back(std::move(piece.text));
  }
  return words;
}

}  // namespace steadystate
