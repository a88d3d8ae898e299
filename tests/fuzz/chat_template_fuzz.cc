// A chat template, rendered over a conversation.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/jinja/template.h"
#include "client/jinja/text.h"
#include "client/jinja/value.h"
#include "tests/fuzz/require.h"

namespace steadystate::jinja {
namespace {

constexpr Author kUser = 1;

Value Message(absl::string_view role, absl::string_view content) {
  Map message;
  message.Set("role", MakeText(role));
  message.Set("content", Text(std::string(content), kUser));
  return MakeMap(std::move(message));
}

Variables Conversation() {
  return {{"messages", MakeList({Message("system", "Be brief."),
                                 Message("user",
                                         "Gr\xc3\xbc\xc3\x9f"
                                         "e {{ x }}\n"),
                                 Message("assistant", "<think>\n</think>\n hi"),
                                 Message("user", "")})},
          {"add_generation_prompt", true},
          {"tools", None()},
          {"bos_token", MakeText("<s>")}};
}

bool IsRefusal(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsInvalidArgument(status);
}

void Run(absl::string_view source) {
  const auto parsed = Template::Parse(source);
  if (!parsed.ok()) {
    Require(IsRefusal(parsed.status()), "what is not understood is refused");
    return;
  }
  const auto text = parsed->Render(Conversation(), absl::UnixEpoch());
  const auto again = parsed->Render(Conversation(), absl::UnixEpoch());
  Require(text.ok() == again.ok(), "rendering is a function");
  if (!text.ok()) {
    Require(IsRefusal(text.status()), "what is not understood is refused");
    return;
  }
  Require(text->bytes == again->bytes, "rendering is a function");
  Require(text->authors.size() == text->bytes.size(),
          "each byte has an author");
}

}  // namespace
}  // namespace steadystate::jinja

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  steadystate::jinja::Run(
      absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
