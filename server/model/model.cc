#include "server/model/model.h"

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/cpu_target.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/decoder.h"
#include "server/model/family.h"
#include "server/model/generation_config.h"
#include "server/model/registry.h"
#include "server/text/chat_template.h"
#include "server/text/tokenizer_factory.h"

namespace steadystate {
namespace {

// Bounds the attention's scratch memory, 16 bytes a token and worker.
constexpr uint64_t kMaxContextCap = uint64_t{1} << 24;

// config.json, as of the version that it shall be read as.
absl::StatusOr<Config> ReadConfig(const ModelOptions& options,
                                  absl::string_view text,
                                  absl::string_view path) {
  STEADYSTATE_ASSIGN_OR_RETURN(Config config, Config::Parse(text, path));
  if (options.transformers_version.empty()) return config;
  return config.With("transformers_version", options.transformers_version);
}

absl::StatusOr<Checkpoint> OpenCheckpoint(const ModelOptions& options) {
  const auto check = [&options](absl::string_view text,
                                absl::string_view path) -> absl::Status {
    STEADYSTATE_ASSIGN_OR_RETURN(const Config whole,
                                 ReadConfig(options, text, path));
    STEADYSTATE_ASSIGN_OR_RETURN(const Config config, LanguageConfig(whole));
    return ReadModelConfig(config).status();
  };
  return Checkpoint::Open(options.path, check);
}

size_t SoftmaxLayers(const ModelConfig& config) {
  size_t layers = 0;
  for (const LayerPlan& plan : config.layers) {
    if (plan.has_softmax()) ++layers;
  }
  return layers;
}

// Of softmax layers without a window: the caps of sessions that ask for none,
// and the largest.
struct ContextCaps {
  uint64_t usual = 0;
  uint64_t most = 0;
};

absl::StatusOr<ContextCaps> ReadContextCaps(const ModelOptions& options,
                                            const ModelConfig& config) {
  ContextCaps caps;
  caps.usual =
      options.context_cap != 0
          ? options.context_cap
          : std::min(config.max_position_embeddings, kDefaultContextCap);
  caps.most = options.max_context_cap.value_or(caps.usual);
  if (caps.most == 0) {
    caps.most = std::max(
        caps.usual, std::min(config.max_position_embeddings, kMaxContextCap));
  }
  if (SoftmaxLayers(config) == 0) return caps;
  if (caps.most < caps.usual) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_context_cap is ", caps.most,
                     "; it must be at least the cap of sessions that ask for "
                     "none, ",
                     caps.usual, ", or 0"));
  }
  if (caps.most > kMaxContextCap) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a context cap of ", caps.most, " tokens for softmax layers; at most ",
        kMaxContextCap, " are possible"));
  }
  return caps;
}

SlotType CacheType(const ModelOptions& options, DType weights) {
  const DType cache = options.cache_dtype.value_or(
      weights == DType::kF32 ? DType::kF32 : DType::kBf16);
  switch (cache) {
    case DType::kF32:
      return SlotType::kFloat32;
    case DType::kI8:
      return SlotType::kInt8;
    default:
      return SlotType::kBfloat16;
  }
}

// What shall be kept in less must be there, and bear it.
absl::Status CheckStateDType(const ModelOptions& options, const Family& family,
                             const StateLayoutBuilder& state) {
  if (options.state_dtype == StateDType::kF32) return absl::OkStatus();
  if (!state.has_matrices()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this model of model_type '", family.model_type,
                     "' has no recurrent matrices that could be kept in ",
                     Name(options.state_dtype), "; its state dtype is f32"));
  }
  if (options.state_dtype != StateDType::kBf16 || family.bf16_states) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "states of model_type '", family.model_type, "' cannot be kept in ",
      Name(options.state_dtype), ": over 10^5 tokens its outputs can be off ",
      "by more than 1 %. State dtypes of int16, as small and more exact, and ",
      "f32 are possible"));
}

std::vector<std::string> LayerKinds(const ModelConfig& config) {
  std::vector<std::string> kinds;
  for (const LayerPlan& plan : config.layers) {
    if (plan.has_family()) {
      kinds.emplace_back(config.family->model_type);
      if (plan.has_softmax()) kinds.back() += " and softmax";
    } else if (plan.tokens == TokenMixer::kNone) {
      kinds.emplace_back("mlp");
    } else if (plan.tokens == TokenMixer::kLatent) {
      kinds.emplace_back("softmax latent");
    } else {
      kinds.emplace_back(plan.softmax.window.has_value() ? "softmax window"
                                                         : "softmax");
    }
  }
  return kinds;
}

ModelDescription Describe(const ModelOptions& options,
                          const Checkpoint& checkpoint,
                          const ModelConfig& config) {
  return {.id = options.id.empty() ? checkpoint.name() : options.id,
          .family = std::string(config.family->model_type),
          .fingerprint = "",
          .vocab_size = config.vocab_size,
          .hidden_size = config.hidden_size,
          .layers = config.layers.size(),
          .softmax_layers = SoftmaxLayers(config),
          .layer_kinds = LayerKinds(config),
          .context_cap = 0,
          .norm = config.norm.kind == NormStyle::Kind::kRms ? "rmsnorm"
                                                            : "layernorm",
          .norm_eps = config.norm.eps,
          .tied_head = false,
          .parameters = 0,
          .bos_tokens = config.bos_tokens,
          .eos_tokens = config.eos_tokens,
          .ids_without_token = {},
          .chat = {},
          .linear = {},
          .kernel_target = KernelTargetName(),
          .warnings = config.warnings,
          .readings = config.readings};
}

// The ids that have no token, but for those that config.json gives a
// meaning.
std::vector<int32_t> IdsWithoutToken(const Tokenizer& tokenizer,
                                     const ModelConfig& config) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; static_cast<size_t>(id) < config.vocab_size; ++id) {
    const auto is = [id](int32_t token) { return token == id; };
    if (!tokenizer.HasToken(id) &&
        std::ranges::none_of(config.eos_tokens, is) &&
        std::ranges::none_of(config.bos_tokens, is)) {
      ids.push_back(id);
    }
  }
  // A tokenizer without tokens has nothing to say.
  if (ids.size() == config.vocab_size) ids.clear();
  return ids;
}

// The tokenizer, or null, and what the description says of text.
absl::StatusOr<std::unique_ptr<Tokenizer>> ReadText(
    const std::string& directory, const ModelConfig& config,
    ModelDescription& description) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      TokenizerChoice tokenizer,
      MakeTokenizer(directory, config.byte_tokenizer, config.vocab_size));
  if (tokenizer.tokenizer != nullptr) {
    description.ids_without_token =
        IdsWithoutToken(*tokenizer.tokenizer, config);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(description.chat, ReadChatTemplate(directory));
  for (const auto* warnings :
       {&tokenizer.warnings, &description.chat.warnings}) {
    description.warnings.insert(description.warnings.end(), warnings->begin(),
                                warnings->end());
  }
  return std::move(tokenizer.tokenizer);
}

}  // namespace

struct Model::Contents {
  ModelDescription description;
  StateLayout layout;
  std::unique_ptr<Tokenizer> tokenizer;  // or null
  Decoder decoder;
};

absl::StatusOr<std::shared_ptr<const Model>> Model::Load(
    const ModelOptions& options) {
  STEADYSTATE_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                               OpenCheckpoint(options));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const Config whole,
      ReadConfig(options, checkpoint.config_text(), checkpoint.config_path()));
  STEADYSTATE_ASSIGN_OR_RETURN(const Config config, LanguageConfig(whole));
  STEADYSTATE_ASSIGN_OR_RETURN(ModelConfig model_config,
                               ReadModelConfig(config));
  STEADYSTATE_RETURN_IF_ERROR(
      AddGeneratedTokens(checkpoint.directory(), model_config));
  if (whole.Has(kLanguageModel)) {
    model_config.readings.emplace_back(
        "a model of several media: its language model alone, without images");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const ContextCaps caps,
                               ReadContextCaps(options, model_config));
  const DType weights = options.weight_dtype.value_or(DType::kBf16);
  STEADYSTATE_ASSIGN_OR_RETURN(const std::unique_ptr<LinearFactory> linears,
                               LinearFactory::Create(weights, options.threads));

  // Reading every byte takes about as long as packing them: at the same time.
  std::future<absl::StatusOr<std::string>> fingerprint =
      std::async(std::launch::async, [&checkpoint, &options] {
        return checkpoint.Fingerprint(options.transformers_version);
      });
  auto contents = std::make_unique<Model::Contents>();
  contents->description = Describe(options, checkpoint, model_config);
  WeightStore store(checkpoint, options.progress);
  StateLayoutBuilder state(options.state_dtype, CacheType(options, weights));
  STEADYSTATE_ASSIGN_OR_RETURN(
      contents->decoder, Decoder::Make(config, model_config, caps.most, weights,
                                       store, *linears, state));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckStateDType(options, *model_config.family, state));
  contents->layout = std::move(state).Build();
  ModelDescription& description = contents->description;
  if (contents->layout.context_cap() != 0) description.context_cap = caps.usual;
  STEADYSTATE_ASSIGN_OR_RETURN(
      contents->tokenizer,
      ReadText(checkpoint.directory(), model_config, description));
  description.tied_head = contents->decoder.tied();
  description.parameters = store.parameters();
  description.linear = linears->report();
  for (const std::string& name :
       store.Unused(model_config.family->frame.foreign)) {
    description.warnings.push_back(
        absl::StrCat("tensor '", name, "' is not used"));
  }
  STEADYSTATE_ASSIGN_OR_RETURN(description.fingerprint, fingerprint.get());
  return std::shared_ptr<const Model>(new Model(std::move(contents)));
}

Model::Model(std::unique_ptr<Contents> contents)
    : contents_(std::move(contents)) {}

Model::~Model() = default;

const ModelDescription& Model::description() const {
  return contents_->description;
}

const StateLayout& Model::state_layout() const { return contents_->layout; }

const Tokenizer* Model::tokenizer() const { return contents_->tokenizer.get(); }

Workspace Model::MakeWorkspace(size_t max_rows, ThreadPool& pool) const {
  return Workspace(contents_->description.hidden_size,
                   contents_->decoder.scratch(), max_rows, pool);
}

void Model::Forward(std::span<const InputRow> rows,
                    std::span<const Segment> segments, float* hidden,
                    Workspace& workspace) const {
  contents_->decoder.Forward(rows, segments, hidden, workspace);
}

std::optional<size_t> Model::FirstCausalLayer() const {
  return contents_->decoder.FirstCausalLayer();
}

void Model::Embed(std::span<const InputRow> rows, float* residual,
                  Workspace& workspace) const {
  contents_->decoder.Embed(rows, residual, workspace);
}

void Model::ForwardLayer(size_t layer, std::span<const Segment> segments,
                         size_t rows, float* residual,
                         Workspace& workspace) const {
  contents_->decoder.ForwardLayer(layer, segments, rows, residual, workspace);
}

void Model::Finish(size_t rows, const float* residual, float* hidden,
                   Workspace& workspace) const {
  contents_->decoder.Finish(rows, residual, hidden, workspace);
}

void Model::Head(size_t rows, const float* hidden, float* logits,
                 Workspace& workspace) const {
  contents_->decoder.Head(rows, hidden, logits, workspace);
}

}  // namespace steadystate
