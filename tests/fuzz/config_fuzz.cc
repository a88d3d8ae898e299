// A config.json, up to the first tensor that a layer asks for: the checkpoint
// has none.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/string_view.h"
#include "kernels/linear/linear.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/layer.h"
#include "server/model/registry.h"
#include "tests/fuzz/require.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

// What all inputs share.
struct Empty {
  Empty() : linears(*LinearFactory::Create(DType::kF32)) {
    WriteCheckpoint({.config = nlohmann::json::object(), .tensors = {}},
                    directory.path());
    checkpoint.emplace(*Checkpoint::Open(directory.path()));
  }
  TempDirectory directory;
  std::optional<Checkpoint> checkpoint;
  std::unique_ptr<LinearFactory> linears;
};

void MakeLayer(const Config& config, const ModelConfig& model, size_t layer) {
  static Empty& empty = *new Empty;
  WeightStore store(*empty.checkpoint);
  StateLayoutBuilder state;
  ScratchSize scratch;
  const WeightScope root(store, "");
  const MixerBuilder builder{.layer = layer,
                             .layers = model.layers.size(),
                             .hidden_size = model.hidden_size,
                             .norm_eps = 1e-6f,
                             .context_cap = 64,
                             .config = config,
                             .model = root,
                             .weights = root.Child("layer."),
                             .linears = *empty.linears,
                             .state = state,
                             .scratch = scratch};
  Require(!MakeTokenMixer(model, builder).ok(), "no weights");
  if (model.layers[layer].channels != ChannelMixer::kNone) {
    Require(!MakeChannelMixer(model, builder).ok(), "no weights");
  }
}

}  // namespace
}  // namespace steadystate

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using steadystate::Require;
  const auto whole = steadystate::Config::Parse(
      absl::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!whole.ok()) return 0;
  const auto config = steadystate::LanguageConfig(*whole);
  if (!config.ok()) return 0;
  const auto model = steadystate::ReadModelConfig(*config);
  if (!model.ok()) return 0;
  Require(model->family != nullptr, "there is a family");
  Require(!model->layers.empty(), "there are layers");
  steadystate::MakeLayer(*config, *model, 0);
  steadystate::MakeLayer(*config, *model, model->layers.size() - 1);
  return 0;
}
