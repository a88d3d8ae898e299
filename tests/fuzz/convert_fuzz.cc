// A request of the API: the first byte tells which, the rest is the message.
// What is accepted holds what the engine relies on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "server/engine/engine.h"
#include "server/rpc/convert.h"
#include "tests/fuzz/require.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {
namespace {

// With a tokenizer and without, of the least sizes that have one.
struct Models {
  Models() {
    models = {TinyModel().Load(), TinyModel({.byte_tokenizer = false}).Load()};
    for (const auto& model : models) {
      converters.emplace_back(*model, EngineOptions{}, size_t{4} << 20);
    }
  }
  std::vector<std::shared_ptr<const Model>> models;
  std::vector<Converter> converters;
};

constexpr int32_t kVocabSize = 256;

void CheckTokens(const std::vector<int32_t>& tokens) {
  Require(std::all_of(tokens.begin(), tokens.end(),
                      [](int32_t id) { return id >= 0 && id < kVocabSize; }),
          "tokens are the model's");
}

template <typename Message>
bool Parse(const uint8_t* data, size_t size, Message& message) {
  return message.ParseFromArray(data, static_cast<int>(size));
}

void Convert(const Converter& converter, int kind, const uint8_t* data,
             size_t size) {
  if (kind == 0) {
    v1::CreateSessionRequest request;
    if (Parse(data, size, request)) {
      converter.ToSessionOptions(request).IgnoreError();
    }
  } else if (kind == 1) {
    v1::StepRequest request;
    StepRequest to;
    if (!Parse(data, size, request)) return;
    if (converter.ToStepRequest(request, to).ok()) CheckTokens(to.tokens);
  } else if (kind == 2) {
    v1::GenerateRequest request;
    if (!Parse(data, size, request)) return;
    const auto to = converter.ToGenerateRequest(request);
    if (to.ok()) CheckTokens(to->prompt);
  } else if (kind == 3) {
    v1::ScoreRequest request;
    if (!Parse(data, size, request)) return;
    const auto to = converter.ToScoreRequest(request);
    if (to.ok()) CheckTokens(to->tokens);
  } else {
    v1::EmbedRequest request;
    if (!Parse(data, size, request)) return;
    const auto to = converter.ToEmbedRequest(request);
    if (to.ok()) CheckTokens(to->tokens);
  }
}

}  // namespace
}  // namespace steadystate

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // It complains of every malformed text.
  static const google::protobuf::LogSilencer silence;
  static auto& models = *new steadystate::Models;
  if (size == 0) return 0;
  for (const steadystate::Converter& converter : models.converters) {
    steadystate::Convert(converter, data[0] % 5, data + 1, size - 1);
  }
  return 0;
}
