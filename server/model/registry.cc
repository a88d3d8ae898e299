#include "server/model/registry.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/status_macros.h"
#include "server/checkpoint/config.h"
#include "server/model/mixers/mixers.h"

namespace steadystate {
namespace {

std::vector<Family> AllFamilies() {
  std::vector<Family> all = {BailingHybridFamily(), BambaFamily(),
                             DeltaNetFamily(),      GatedDeltanetFamily(),
                             FalconH1Family(),      FalconMambaFamily(),
                             GlaFamily(),           GraniteMoeHybridFamily(),
                             HgrnFamily(),          Hgrn2Family(),
                             JambaFamily(),         KdaFamily(),
                             KimiLinearFamily(),    Lfm2Family(),
                             Lfm2MoeFamily(),       Lfm3Family(),
                             LinearAttnFamily(),    LinearRecurrenceFamily(),
                             MambaFamily(),         Mamba2Family(),
                             NemotronHFamily(),     OlmoHybridFamily(),
                             Qwen35Family(),        Qwen35MoeFamily(),
                             Qwen3NextFamily(),     RecurrentGemmaFamily(),
                             RetnetFamily(),        Rwkv6Family(),
                             Rwkv7Family(),         SimpleGlaFamily(),
                             TransformerFamily(),   XlstmFamily()};
  std::ranges::sort(all, {}, &Family::model_type);
  return all;
}

}  // namespace

std::span<const Family> Families() {
  static const std::vector<Family> families = AllFamilies();
  return families;
}

const Family* FindFamily(absl::string_view model_type) {
  const std::span<const Family> families = Families();
  const auto found = std::ranges::find_if(families, [&](const Family& family) {
    return family.model_type == model_type ||
           (!model_type.empty() && family.inner_model_type == model_type);
  });
  return found == families.end() ? nullptr : &*found;
}

namespace {

// Far above any checkpoint, far below what overflows a product of three.
constexpr Bounds kWidth = {1, 1 << 20};
constexpr Bounds kLayers = {1, 1024};
constexpr Bounds kVocabulary = {1, 1 << 24};
constexpr Bounds kPositions = {1, 1 << 30};
constexpr size_t kMaxSpecialTokens = 64;

constexpr absl::string_view kOwnKeys[] = {
    "model_type",          "hidden_size",  "num_hidden_layers",
    "vocab_size",          "norm_eps",     "rms_norm_eps",
    "layer_norm_epsilon",  "bos_token_id", "eos_token_id",
    "tie_word_embeddings", "tokenizer",    "max_position_embeddings",
    "transformers_version"};
// Of the gated MLP.
constexpr absl::string_view kMlpKeys[] = {"hidden_ratio", "hidden_act",
                                          "intermediate_size"};
constexpr absl::string_view kHybridKey[] = {"attn"};
constexpr absl::string_view kOwnInertKeys[] = {
    "_name_or_path",
    "architectures",
    "attn_mode",
    "auto_map",
    "chunk_size_feed_forward",
    "dtype",
    "elementwise_affine",
    "fuse_cross_entropy",
    "fuse_linear_cross_entropy",
    "fuse_norm",
    "fuse_swiglu",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "label2id",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "torch_dtype",
    "use_cache",
    "use_l2warp",
};
constexpr absl::string_view kQuantized = "quantization_config";
constexpr FixedKey kFixedKeys[] = {{"attnres_block_size", "null"},
                                   {kQuantized, "null"}};
constexpr KeyTable kCommonKeys = {
    .used = kOwnKeys, .inert = kOwnInertKeys, .must_be_default = kFixedKeys};
constexpr KeyTable kMlpTable = {
    .used = kMlpKeys, .inert = {}, .must_be_default = {}};
constexpr KeyTable kAttnTable = {
    .used = kHybridKey, .inert = {}, .must_be_default = {}};
constexpr absl::string_view kHybridKeys[] = {"layers"};
constexpr KeyTable kHybridTable = {
    .used = kHybridKeys, .inert = {}, .must_be_default = {}};

absl::Status ReadFamily(const Config& config, ModelConfig& model) {
  std::vector<absl::string_view> known;
  for (const Family& family : Families()) {
    known.push_back(family.model_type);
  }
  const std::string supported =
      absl::StrCat("supported are: ", absl::StrJoin(known, ", "));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string model_type,
                               config.String("model_type", ""));
  if (model_type.empty()) return config.Invalid("model_type", supported);
  model.family = FindFamily(model_type);
  if (model.family == nullptr) {
    return config.Unsupported("model_type", supported);
  }
  model.defaults = model.family->defaults;
  if (model.family->read_defaults != nullptr) {
    STEADYSTATE_ASSIGN_OR_RETURN(model.defaults,
                                 model.family->read_defaults(config));
  }
  return absl::OkStatus();
}

// The width of the MLP: stated, or 2/3 of hidden_ratio times D, rounded up to a
// multiple of 256.
absl::Status ReadMlp(const Config& config, ModelConfig& model) {
  // In fla null is not the family's default here, but 4.
  const double fallback =
      config.IsNull("hidden_ratio") ? 4 : model.defaults.hidden_ratio;
  STEADYSTATE_ASSIGN_OR_RETURN(
      const double ratio, config.Number("hidden_ratio", fallback, {0.01, 64}));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::optional<size_t> stated,
      config.OptionalSize("intermediate_size", kWidth));
  const double wanted =
      static_cast<double>(model.hidden_size) * ratio * 2.0 / 3.0;
  const size_t derived = (static_cast<size_t>(wanted) + 255) / 256 * 256;
  model.intermediate_size =
      stated.value_or(model.defaults.intermediate_size.value_or(derived));
  STEADYSTATE_ASSIGN_OR_RETURN(model.mlp_activation,
                               config.ActivationOf("hidden_act", "swish"));
  if (model.mlp_activation != Activation::kSilu &&
      model.mlp_activation != Activation::kPowlu) {
    return config.Unsupported(
        "hidden_act", "supported are \"swish\", \"silu\" and \"powlu\"");
  }
  return absl::OkStatus();
}

absl::Status ReadSpecialTokens(const Config& config, absl::string_view key,
                               std::optional<size_t> fallback,
                               ModelConfig& model, std::vector<int32_t>& tokens,
                               bool& by_default) {
  STEADYSTATE_ASSIGN_OR_RETURN(auto stated, ReadTokenIds(config, key, model));
  by_default = !stated.has_value();
  if (stated.has_value()) {
    tokens = *std::move(stated);
  } else if (fallback.has_value() && *fallback < model.vocab_size) {
    // The library's default, unless the vocabulary is too small for it.
    tokens = {static_cast<int32_t>(*fallback)};
  }
  return absl::OkStatus();
}

absl::Status ReadTokens(const Config& config, ModelConfig& model) {
  const FamilyDefaults& defaults = model.defaults;
  STEADYSTATE_RETURN_IF_ERROR(
      ReadSpecialTokens(config, "bos_token_id", defaults.bos_token, model,
                        model.bos_tokens, model.bos_by_default));
  STEADYSTATE_RETURN_IF_ERROR(
      ReadSpecialTokens(config, "eos_token_id", defaults.eos_token, model,
                        model.eos_tokens, model.eos_by_default));
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string tokenizer,
                               config.String("tokenizer", ""));
  model.byte_tokenizer = tokenizer == "bytes";
  if (!tokenizer.empty() && !model.byte_tokenizer) {
    return config.Unsupported("tokenizer", "only \"bytes\" is supported");
  }
  if (model.byte_tokenizer && model.vocab_size < 256) {
    return config.Invalid("vocab_size",
                          "with the tokenizer \"bytes\" it must be >= 256");
  }
  return absl::OkStatus();
}

// Turns the layers that `attn` names into softmax attention.
absl::Status ReadHybrid(const Config& config, ModelConfig& model) {
  const size_t layers = model.layers.size();
  std::vector<bool> listed(layers);
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Config> groups,
                               config.Objects("attn", layers));
  for (const Config& group : groups) {
    const KeyTable tables[] = {kHybridTable, SoftmaxAttentionKeys()};
    STEADYSTATE_RETURN_IF_ERROR(group.CheckKeys(tables, model.warnings));
    STEADYSTATE_ASSIGN_OR_RETURN(
        const SoftmaxAttentionOptions options,
        ReadSoftmaxAttentionOptions(group, model.hidden_size, 0));
    STEADYSTATE_ASSIGN_OR_RETURN(
        const auto indices,
        group.SizeList("layers", {0, static_cast<double>(layers - 1)}, layers));
    if (!indices.has_value()) {
      return group.Invalid("layers", "hybrid layers need it");
    }
    for (const size_t layer : *indices) {
      if (listed[layer]) {
        return group.Invalid("layers", "a layer is listed twice");
      }
      listed[layer] = true;
      model.layers[layer].tokens = TokenMixer::kSoftmax;
      model.layers[layer].softmax = options;
    }
  }
  return absl::OkStatus();
}

// Which layers are softmax attention, and what kind of it.
absl::Status ReadSoftmaxLayers(const Config& config, ModelConfig& model) {
  if (model.family->hybrid) {
    STEADYSTATE_RETURN_IF_ERROR(ReadHybrid(config, model));
  }
  if (model.family->layer.tokens != TokenMixer::kSoftmax) {
    return absl::OkStatus();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const SoftmaxAttentionOptions options,
      ReadSoftmaxAttentionOptions(config, model.hidden_size, 32));
  for (LayerPlan& plan : model.layers) plan.softmax = options;
  return absl::OkStatus();
}

// True if its layers have the gated MLP.
bool HasMlp(const ModelConfig& model) {
  return model.family->layer.channels == ChannelMixer::kGatedMlp;
}

// Of several names the family's own rules, else the newest.
absl::Status ReadNorm(const Config& config, ModelConfig& model) {
  std::array<absl::string_view, 3> keys = {"norm_eps", "rms_norm_eps",
                                           "layer_norm_epsilon"};
  std::stable_partition(keys.begin(), keys.end(),
                        [&model](absl::string_view key) {
                          return key == model.family->frame.eps_key;
                        });
  double eps = model.defaults.norm_eps;
  absl::string_view taken;
  for (const absl::string_view key : keys) {
    if (!config.Has(key)) continue;
    STEADYSTATE_ASSIGN_OR_RETURN(const double stated,
                                 config.Number(key, eps, {0, 1}));
    if (taken.empty()) {
      eps = stated;
      taken = key;
    } else if (stated != eps) {
      model.warnings.push_back(absl::StrCat(taken, " ", eps, " is taken, and ",
                                            key, " ", stated, " is not"));
    }
  }
  model.norm = {.kind = model.family->frame.norm,
                .zero_centred = model.family->frame.zero_centred_norms,
                .bias = false,
                .eps = static_cast<float>(eps)};
  model.layer_norm = model.norm;
  return absl::OkStatus();
}

// transformers 5 does not tie what is stored twice and differs; before, it did.
absl::Status ReadTiedHead(const Config& config, ModelConfig& model) {
  model.tied_head = model.defaults.tied_head;
  if (!config.Has("tie_word_embeddings")) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const bool tied,
                               config.Bool("tie_word_embeddings", false));
  const std::optional<LibraryVersion> version = TransformersVersion(config);
  const bool by_version_5 = version.has_value() && version->major >= 5;
  model.tied_head = !tied          ? TiedHead::kNever
                    : by_version_5 ? TiedHead::kUnlessStored
                                   : TiedHead::kYes;
  return absl::OkStatus();
}

absl::Status CheckKeys(const Config& config, ModelConfig& model) {
  if (config.Has(kQuantized) && !config.IsNull(kQuantized)) {
    return config.Unsupported(
        kQuantized,
        "weights that others have quantised are not read; fetch the checkpoint "
        "that these were made of, which their model card names as base_model, "
        "and have it quantised by --weight_dtype int8 or int4");
  }
  std::vector<KeyTable> tables = {kCommonKeys, model.family->keys,
                                  model.family->part_keys};
  if (model.family->hybrid) tables.push_back(kAttnTable);
  if (HasMlp(model)) tables.push_back(kMlpTable);
  return config.CheckKeys(tables, model.warnings);
}

}  // namespace

absl::StatusOr<Config> LanguageConfig(const Config& whole) {
  constexpr absl::string_view kInherited[] = {
      "model_type",   "transformers_version",
      "bos_token_id", "eos_token_id",
      "tokenizer",    kQuantized};
  constexpr absl::string_view kRuling[] = {"tie_word_embeddings"};
  if (!whole.Has(kLanguageModel)) return whole;
  return whole.Inner(kLanguageModel, kInherited, kRuling);
}

absl::StatusOr<std::optional<std::vector<int32_t>>> ReadTokenIds(
    const Config& config, absl::string_view key, ModelConfig& model) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto stated,
      config.WholeNumberList(key, {-1, std::numeric_limits<int32_t>::max()},
                             kMaxSpecialTokens));
  if (!stated.has_value()) return std::optional<std::vector<int32_t>>();
  std::vector<int32_t> ids;
  for (const int64_t id : *stated) {
    if (id == -1) {
      // Some libraries' way to say that there is none.
      model.warnings.push_back(absl::StrCat(key, " -1 is taken as null"));
    } else if (static_cast<size_t>(id) < model.vocab_size) {
      ids.push_back(static_cast<int32_t>(id));
    } else {
      model.warnings.push_back(
          absl::StrCat(key, " ", id, " is left out: there are ",
                       model.vocab_size, " tokens (vocab_size)"));
    }
  }
  return std::optional(std::move(ids));
}

absl::StatusOr<ModelConfig> ReadModelConfig(const Config& config) {
  ModelConfig model;
  STEADYSTATE_RETURN_IF_ERROR(ReadFamily(config, model));
  STEADYSTATE_RETURN_IF_ERROR(CheckKeys(config, model));
  const FamilyDefaults& defaults = model.defaults;
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.hidden_size,
      config.Size("hidden_size", defaults.hidden_size, kWidth));
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.vocab_size,
      config.Size("vocab_size", defaults.vocab_size, kVocabulary));
  STEADYSTATE_ASSIGN_OR_RETURN(
      const size_t layers,
      config.Size("num_hidden_layers", defaults.layers, kLayers));
  model.layers.assign(layers, model.family->layer);
  STEADYSTATE_RETURN_IF_ERROR(ReadNorm(config, model));
  STEADYSTATE_RETURN_IF_ERROR(ReadTiedHead(config, model));
  if (HasMlp(model)) STEADYSTATE_RETURN_IF_ERROR(ReadMlp(config, model));
  STEADYSTATE_RETURN_IF_ERROR(ReadTokens(config, model));
  STEADYSTATE_RETURN_IF_ERROR(ReadSoftmaxLayers(config, model));
  STEADYSTATE_ASSIGN_OR_RETURN(
      model.max_position_embeddings,
      config.Size("max_position_embeddings", defaults.max_position_embeddings,
                  kPositions));
  if (model.family->read_config != nullptr) {
    STEADYSTATE_RETURN_IF_ERROR(model.family->read_config(config, model));
  }
  return model;
}

}  // namespace steadystate
