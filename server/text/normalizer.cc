#include "server/text/normalizer.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/pattern.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

using nlohmann::json;

struct Step {
  std::function<absl::StatusOr<MarkedText>(MarkedText)> apply;
  Growth growth;
};

std::optional<NormalForm> NormalFormOf(absl::string_view type) {
  if (type == "NFC") return NormalForm{true, false};
  if (type == "NFD") return NormalForm{false, false};
  if (type == "NFKC") return NormalForm{true, true};
  if (type == "NFKD") return NormalForm{false, true};
  return std::nullopt;
}

absl::StatusOr<Step> MakePrepend(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string prefix,
                               StringMember(step, "prepend"));
  return Step{[prefix](MarkedText marked) {
                if (marked.text.empty()) return marked;
                marked.text.insert(0, prefix);
                if (!marked.literal.empty()) {
                  marked.literal.insert(0, prefix.size(), kNotLiteral);
                }
                return marked;
              },
              {.added = static_cast<double>(prefix.size())}};
}

absl::StatusOr<Step> MakeReplace(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::shared_ptr<const Regex> pattern,
                               PatternOf(step));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string content,
                               StringMember(step, "content"));
  return Step{[pattern, content](const MarkedText& marked) {
                return ReplaceAll(*pattern, content, marked);
              },
              GrowthOfReplacing(*pattern, content)};
}

absl::StatusOr<Step> MakeStrip(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool left,
                               BoolMember(step, "strip_left", true));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool right,
                               BoolMember(step, "strip_right", true));
  const auto strip = [left, right](const MarkedText& marked) {
    absl::string_view rest = marked.text;
    while (left && !rest.empty() && IsWhiteSpace(FirstCharacter(rest).code)) {
      rest.remove_prefix(FirstCharacter(rest).bytes);
    }
    while (right && !rest.empty() && IsWhiteSpace(LastCharacter(rest).code)) {
      rest.remove_suffix(LastCharacter(rest).bytes);
    }
    const auto begin = static_cast<size_t>(rest.data() - marked.text.data());
    return MarkedText{std::string(rest),
                      marked.literal.empty()
                          ? ""
                          : marked.literal.substr(begin, rest.size())};
  };
  return Step{strip, {}};
}

MarkedText ToMarkedByteAlphabet(const MarkedText& marked) {
  if (marked.literal.empty()) return {ToByteAlphabet(marked.text), ""};
  MarkedText result;
  for (size_t i = 0; i < marked.text.size(); ++i) {
    result.text += ToByteAlphabet(absl::string_view(&marked.text[i], 1));
    result.literal.resize(result.text.size(), marked.literal[i]);
  }
  return result;
}

absl::StatusOr<Step> MakeStep(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(step, "a normalizer"));
  if (const auto form = NormalFormOf(type)) {
    return Step{[form = *form](MarkedText marked) {
                  marked.text = ToNormalForm(marked.text, form, marked.literal);
                  return marked;
                },
                GrowthOf(*form)};
  }
  if (type == "Prepend") return MakePrepend(step);
  if (type == "Replace") return MakeReplace(step);
  if (type == "Strip") return MakeStrip(step);
  if (type == "ByteLevel") {
    return Step{&ToMarkedByteAlphabet, kByteAlphabetGrowth};
  }
  return UnsupportedType("a normalizer", type);
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const json& description) {
  Normalizer normalizer;
  if (description.is_null()) return normalizer;
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(description, "the normalizer"));
  if (type != "Sequence") {
    STEADYSTATE_RETURN_IF_ERROR(normalizer.Add(description));
    return normalizer;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const auto* steps,
                               StepsMember(description, "normalizers"));
  for (const auto& step : *steps) {
    STEADYSTATE_RETURN_IF_ERROR(normalizer.Add(step));
  }
  return normalizer;
}

absl::Status Normalizer::Add(const json& description) {
  STEADYSTATE_ASSIGN_OR_RETURN(Step step, MakeStep(description));
  steps_.push_back(std::move(step.apply));
  growth_ = growth_.Then(step.growth);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Normalizer::Normalize(std::string text) const {
  STEADYSTATE_ASSIGN_OR_RETURN(MarkedText normal,
                               Normalize(MarkedText{std::move(text), ""}));
  return std::move(normal.text);
}

absl::StatusOr<MarkedText> Normalizer::Normalize(MarkedText text) const {
  for (const auto& step : steps_) {
    STEADYSTATE_ASSIGN_OR_RETURN(text, step(std::move(text)));
  }
  return text;
}

}  // namespace steadystate
