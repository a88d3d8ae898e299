#include "server/engine/request.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

// Inline, so that nothing is linked.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace steadystate {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are hashed as they lie in memory");

// What says which kind of request it was.
enum class Kind : uint8_t { kStep = 1, kGenerate = 2, kScore = 3, kEmbed = 4 };

// Takes up the parts of a request. Each has a length, so that no two requests
// have the same bytes.
class Hasher {
 public:
  explicit Hasher(Kind kind) {
    XXH3_128bits_reset(&state_);
    Add(kind);
  }

  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> Hasher& Add(T value) {
    return AddBytes(&value, sizeof(value));
  }
  template <typename T>
  Hasher& Add(const std::optional<T>& value) {
    Add(value.has_value());
    return value.has_value() ? Add(*value) : *this;
  }
  template <typename T>
  requires std::is_arithmetic_v<T> Hasher& Add(const std::vector<T>& values) {
    Add(uint64_t{values.size()});
    return AddBytes(values.data(), values.size() * sizeof(T));
  }
  Hasher& Add(const std::vector<std::string>& texts) {
    Add(uint64_t{texts.size()});
    for (const std::string& text : texts) {
      Add(uint64_t{text.size()});
      AddBytes(text.data(), text.size());
    }
    return *this;
  }
  Hasher& Add(const SamplingParams& sampling) {
    Add(uint64_t{sampling.logit_bias.size()});
    for (const auto& [token, bias] : sampling.logit_bias) Add(token).Add(bias);
    return Add(sampling.repetition_penalty)
        .Add(sampling.presence_penalty)
        .Add(sampling.frequency_penalty)
        .Add(sampling.penalty_window)
        .Add(sampling.temperature)
        .Add(sampling.top_k)
        .Add(sampling.top_p)
        .Add(sampling.min_p);
  }

  RequestDigest Finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  Hasher& AddBytes(const void* bytes, size_t count) {
    if (count > 0) XXH3_128bits_update(&state_, bytes, count);
    return *this;
  }

  XXH3_state_t state_;
};

}  // namespace

RequestDigest DigestOf(const StepRequest& request) {
  const StepOutputs& outputs = request.outputs;
  Hasher hasher(Kind::kStep);
  hasher.Add(request.tokens).Add(request.embeddings);
  hasher.Add(outputs.logits).Add(outputs.hidden).Add(outputs.top_logprobs);
  hasher.Add(outputs.sampling);
  if (outputs.sampling.has_value()) hasher.Add(outputs.sampling->seed);
  // Without it: what snapshots from before there was text have.
  if (outputs.text) hasher.Add(outputs.text);
  return hasher.Finish();
}

RequestDigest DigestOf(const GenerateRequest& request) {
  Hasher hasher(Kind::kGenerate);
  hasher.Add(request.prompt).Add(request.sampling).Add(request.seed_drawn);
  if (!request.seed_drawn) hasher.Add(request.sampling.seed);
  return hasher.Add(request.max_tokens)
      .Add(request.stop_tokens)
      .Add(request.ignore_eos)
      .Add(request.stop_strings)
      .Add(request.logprobs)
      .Finish();
}

RequestDigest DigestOf(const ScoreRequest& request) {
  return Hasher(Kind::kScore)
      .Add(request.tokens)
      .Add(request.logits)
      .Add(request.top_logprobs)
      .Finish();
}

RequestDigest DigestOf(const EmbedRequest& request) {
  return Hasher(Kind::kEmbed)
      .Add(request.tokens)
      .Add(request.embeddings)
      .Add(request.pooling)
      .Finish();
}

RequestDigest DigestOf(const WorkRequest& /*request*/) { return {}; }

}  // namespace steadystate
