#include "server/text/token_decoder.h"

#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/pattern.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

using nlohmann::json;

constexpr size_t kMaxStrip = 1024;

// "<0xE2>" is a byte.
std::string ByteOrToken(const std::string& token) {
  uint32_t byte = 0;
  if (token.size() == 6 && absl::StartsWith(token, "<0x") && token[5] == '>' &&
      absl::ascii_isxdigit(static_cast<unsigned char>(token[3])) &&
      absl::ascii_isxdigit(static_cast<unsigned char>(token[4])) &&
      absl::SimpleHexAtoi(token.substr(3, 2), &byte)) {
    return std::string(1, static_cast<char>(byte));
  }
  return token;
}

std::string FromByteAlphabet(const std::string& token) {
  std::string bytes;
  AppendFromByteAlphabet(token, bytes);
  return bytes;
}

}  // namespace

absl::StatusOr<TokenDecoder::Step> TokenDecoder::MakeReplace(const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::shared_ptr<const Regex> pattern,
                               PatternOf(step));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string content,
                               StringMember(step, "content"));
  // No other step makes a token longer.
  growth_ = growth_.Then(GrowthOfReplacing(*pattern, content));
  return Step([pattern, content](const std::string& token, bool) {
    return ReplaceAll(*pattern, content, token);
  });
}

absl::StatusOr<TokenDecoder::Step> TokenDecoder::MakeMetaspace(
    const json& step) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string mark,
                               StringMember(step, "replacement"));
  STEADYSTATE_ASSIGN_OR_RETURN(const bool prefix_space,
                               BoolMember(step, "add_prefix_space", true));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string scheme,
      StringMember(step, "prepend_scheme", prefix_space ? "always" : "never"));
  return Step(
      [mark, drops = scheme != "never"](const std::string& token, bool first) {
        return absl::StrReplaceAll(token, {{mark, first && drops ? "" : " "}});
      });
}

absl::StatusOr<TokenDecoder::Strip> TokenDecoder::ReadStrip(const json& step) {
  Strip strip;
  STEADYSTATE_ASSIGN_OR_RETURN(strip.mark, StringMember(step, "content"));
  STEADYSTATE_ASSIGN_OR_RETURN(const int32_t start,
                               IndexMember(step, "start", kMaxStrip));
  STEADYSTATE_ASSIGN_OR_RETURN(const int32_t stop,
                               IndexMember(step, "stop", kMaxStrip));
  strip.start = static_cast<size_t>(start);
  strip.stop = static_cast<size_t>(stop);
  return strip;
}

void TokenDecoder::Strip::Apply(std::string& text) const {
  absl::string_view rest = text;
  for (size_t i = 0; i < start && absl::StartsWith(rest, mark); ++i) {
    rest.remove_prefix(mark.size());
  }
  for (size_t i = 0; i < stop && absl::EndsWith(rest, mark); ++i) {
    rest.remove_suffix(mark.size());
  }
  if (rest.size() != text.size()) text = std::string(rest);
}

absl::StatusOr<TokenDecoder> TokenDecoder::FromJson(const json& description) {
  TokenDecoder decoder;
  if (description.is_null()) {
    return absl::UnimplementedError("without a decoder");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string type,
                               TypeOf(description, "the decoder"));
  if (type != "Sequence") {
    STEADYSTATE_RETURN_IF_ERROR(decoder.Add(description));
    return decoder;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const json* steps,
                               StepsMember(description, "decoders"));
  for (const json& step : *steps) {
    STEADYSTATE_RETURN_IF_ERROR(decoder.Add(step));
  }
  return decoder;
}

absl::StatusOr<TokenDecoder::Step> TokenDecoder::MakeStep(
    const std::string& type, const json& step) {
  if (type == "Replace") return MakeReplace(step);
  if (type == "Metaspace") return MakeMetaspace(step);
  if (type == "Strip") {
    STEADYSTATE_ASSIGN_OR_RETURN(const Strip strip, ReadStrip(step));
    return Step([strip](std::string token, bool) {
      strip.Apply(token);
      return token;
    });
  }
  if (type == "ByteFallback") {
    return Step(
        [](const std::string& token, bool) { return ByteOrToken(token); });
  }
  if (type == "ByteLevel") {
    byte_level_ = true;
    fused_ = true;
    return Step(
        [](const std::string& token, bool) { return FromByteAlphabet(token); });
  }
  return UnsupportedType("a decoder", type);
}

absl::Status TokenDecoder::Add(const json& step) {
  const absl::StatusOr<std::string> type = TypeOf(step, "a decoder");
  STEADYSTATE_RETURN_IF_ERROR(type.status());
  if (*type == "Fuse") {
    fused_ = true;
    return absl::OkStatus();
  }
  if (!fused_) {
    STEADYSTATE_ASSIGN_OR_RETURN(Step made, MakeStep(*type, step));
    steps_.push_back(std::move(made));
    return absl::OkStatus();
  }
  if (*type != "Strip") {
    return absl::UnimplementedError(
        absl::StrCat("a decoder of type '", type->substr(0, 80),
                     "' behind one that joins all tokens is not supported"));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(Strip strip, ReadStrip(step));
  strips_.push_back(std::move(strip));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenDecoder::Decode(std::string token,
                                                 bool first) const {
  for (const Step& step : steps_) {
    STEADYSTATE_ASSIGN_OR_RETURN(token, step(token, first));
  }
  return token;
}

void TokenDecoder::StripText(std::string& text) const {
  for (const Strip& strip : strips_) strip.Apply(text);
}

}  // namespace steadystate
