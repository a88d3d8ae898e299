#include "tests/bench/model_source.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/engine/validate.h"
#include "tests/bench/random_checkpoint.h"
#include "tests/bench/shapes.h"

namespace steadystate::bench {
namespace {

constexpr char kQuickShape[] = "mamba2-tiny";

// The types of weights by the names of the server's flag --weight_dtype.
struct WeightType {
  const char* name;
  std::optional<DType> dtype;
};
constexpr WeightType kWeightTypes[] = {{"auto", std::nullopt},
                                       {"f32", DType::kF32},
                                       {"bf16", DType::kBf16},
                                       {"int8", DType::kI8},
                                       {"int4", DType::kI4}};

absl::StatusOr<std::optional<DType>> ReadWeightType(const std::string& name) {
  std::string known;
  for (const WeightType& type : kWeightTypes) {
    if (name == type.name) return type.dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", type.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--weight_dtype is '", name, "'; it must be one of ", known));
}

absl::StatusOr<StateDType> ReadStateType(const std::string& name) {
  for (const StateDType type :
       {StateDType::kF32, StateDType::kBf16, StateDType::kInt16}) {
    if (name == Name(type)) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--state_dtype is '", name, "'; it must be one of f32, bf16, int16"));
}

}  // namespace

ModelSource::ModelSource(const std::string& shape)
    : default_shape_(shape),
      shape_help_(absl::StrCat("A random checkpoint of this shape, see "
                               "steadystate-bench help checkpoint. Default ",
                               shape, ".")) {}

void ModelSource::AppendTo(client::OptionTable& table) {
  table.push_back({"shape", "NAME", shape_help_, &shape_option_});
  table.push_back(
      {"model", "DIR", "A checkpoint to take in place of --shape.", &model_});
  table.push_back({"weight_dtype", "TYPE",
                   "As the server's flag. Default auto.", &weight_dtype_});
  table.push_back({"state_dtype", "TYPE", "As the server's flag. Default f32.",
                   &state_dtype_});
  table.push_back({"threads", "N",
                   "Threads that compute. Default: as many as this process may "
                   "keep processors busy.",
                   &threads_option_});
  table.push_back({"max_batch_rows", "N",
                   "As the server's flag. Default: the engine's.",
                   &batch_rows_});
  table.push_back({"prefill_chunk_rows", "N",
                   "As the server's flag. Default 0.", &chunk_rows_});
  table.push_back({"prefill_slice", "DURATION",
                   "As the server's flag. Default: the engine's.",
                   &engine_.prefill_slice});
}

absl::Status ModelSource::Check(const RunOptions& run) {
  threads_ = threads_option_.value_or(UsableCpus());
  if (threads_ < 1 || threads_ > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--threads is ", threads_, "; it must be 1 to ", kMaxThreads));
  }
  engine_.threads = threads_;
  if (batch_rows_) engine_.max_batch_rows = *batch_rows_;
  engine_.prefill_chunk_rows = chunk_rows_.value_or(0);
  STEADYSTATE_RETURN_IF_ERROR(ValidateEngineOptions(engine_));
  STEADYSTATE_RETURN_IF_ERROR(ReadWeightType(weight_dtype_).status());
  STEADYSTATE_RETURN_IF_ERROR(ReadStateType(state_dtype_).status());
  if (shape_option_ && model_) {
    return absl::InvalidArgumentError("give only one of --shape and --model");
  }
  if (model_) {
    return model_->empty() ? absl::InvalidArgumentError(
                                 "--model is empty; it must be a directory")
                           : absl::OkStatus();
  }
  shape_ = shape_option_.value_or(
      run.Unless<std::string>(kQuickShape, default_shape_));
  return MakeShape(shape_).status();
}

std::string ModelSource::name() const {
  if (!model_) return shape_;
  return std::filesystem::path(*model_).filename().string();
}

absl::StatusOr<std::string> ModelSource::Directory(const RunOptions& run) {
  if (model_) return *model_;
  if (directory_ == nullptr) {
    STEADYSTATE_ASSIGN_OR_RETURN(const RandomModel model, MakeShape(shape_));
    directory_ = std::make_unique<TempDirectory>();
    STEADYSTATE_RETURN_IF_ERROR(WriteRandomCheckpoint(
        model, DType::kBf16, run.seed, directory_->path()));
  }
  return directory_->path();
}

absl::StatusOr<std::shared_ptr<const Model>> ModelSource::Load(
    const RunOptions& run) {
  ModelOptions options;
  STEADYSTATE_ASSIGN_OR_RETURN(options.path, Directory(run));
  STEADYSTATE_ASSIGN_OR_RETURN(options.weight_dtype,
                               ReadWeightType(weight_dtype_));
  STEADYSTATE_ASSIGN_OR_RETURN(options.state_dtype,
                               ReadStateType(state_dtype_));
  options.id = name();
  return Model::Load(options);
}

absl::StatusOr<std::vector<std::string>> ModelSource::ServerFlags(
    const RunOptions& run) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string directory, Directory(run));
  return std::vector<std::string>{
      absl::StrCat("--model=", directory),
      absl::StrCat("--weight_dtype=", weight_dtype_),
      absl::StrCat("--state_dtype=", state_dtype_),
      absl::StrCat("--threads=", threads_),
      absl::StrCat("--max_batch_rows=", engine_.max_batch_rows),
      absl::StrCat("--prefill_chunk_rows=", engine_.prefill_chunk_rows),
      absl::StrCat("--prefill_slice=",
                   absl::FormatDuration(engine_.prefill_slice))};
}

void ModelSource::Describe(const Model& model,
                           nlohmann::json& environment) const {
  const ModelDescription& description = model.description();
  environment["model"] = name();
  environment["weight_dtype"] = description.linear.weight_dtype;
  environment["state_dtype"] = model.state_layout().dtype();
  environment["isa"] = description.linear.isa;
  environment["onednn"] = description.linear.onednn_version;
  environment["threads"] = threads_;
  environment["parameters"] = description.parameters;
  environment["state_bytes"] = model.state_layout().bytes();
}

double StepWeightBytes(const Model& model) {
  const ModelDescription& description = model.description();
  const uint64_t table =
      uint64_t{description.vocab_size} * description.hidden_size;
  const uint64_t read =
      description.parameters - (description.tied_head ? 0 : table);
  // Those that are no matrices are kept as f32, and are few.
  for (const WeightType& type : kWeightTypes) {
    if (type.dtype && description.linear.weight_dtype == type.name) {
      const DType head = *type.dtype == DType::kI4 ? DType::kI8 : *type.dtype;
      return static_cast<double>(read - table) * BytesPerWeight(*type.dtype) +
             static_cast<double>(table) * BytesPerWeight(head);
    }
  }
  return 0;
}

}  // namespace steadystate::bench
