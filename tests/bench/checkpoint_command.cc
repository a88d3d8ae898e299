// `steadystate-bench checkpoint`: writes a random checkpoint of a known shape.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/status_macros.h"
#include "tests/bench/command.h"
#include "tests/bench/environment.h"
#include "tests/bench/random_checkpoint.h"
#include "tests/bench/shapes.h"

namespace steadystate::bench {
namespace {

class CheckpointCommand final : public Command {
 public:
  CommandText text() const override {
    return {
        "checkpoint", "Writes a random checkpoint of a known model's shape",
        "Writes config.json and model.safetensors with random weights, the "
        "same for the same seed, that the server loads. Matrices have "
        "--dtype, the small tensors float32.",
        "  steadystate-bench checkpoint --shape mamba2-370m --out /tmp/m\n"};
  }

  client::OptionTable options() override {
    return {
        {"shape", "NAME",
         "Required: mamba2-130m, mamba2-370m, gla-340m, gla-1.3b, "
         "retnet-1.3b, qwen3.5-0.8b, lfm2-1.2b, granite-4.0-h-350m, demo; for "
         "tests mamba2-tiny, gla-tiny and noop.",
         &shape_},
        {"out", "DIR",
         "Required. The directory, made if it is not there; it must not "
         "have a checkpoint.",
         &out_},
        {"dtype", "bf16|f32", "Of the matrices. Default bf16.", &dtype_}};
  }

  absl::Status Check(const RunOptions&) override {
    std::vector<absl::string_view> missing;
    if (shape_.empty()) missing.emplace_back("--shape is missing: give a name");
    if (out_.empty())
      missing.emplace_back("--out is missing: give a directory");
    if (!missing.empty()) {
      return absl::InvalidArgumentError(absl::StrJoin(missing, "; "));
    }
    if (dtype_ != "bf16" && dtype_ != "f32") {
      return absl::InvalidArgumentError(
          absl::StrCat("--dtype is '", dtype_, "'; it must be bf16 or f32"));
    }
    return MakeShape(shape_).status();
  }

  absl::StatusOr<Report> Run(const RunOptions& run) override {
    STEADYSTATE_ASSIGN_OR_RETURN(const RandomModel model, MakeShape(shape_));
    STEADYSTATE_RETURN_IF_ERROR(WriteRandomCheckpoint(
        model, dtype_ == "f32" ? DType::kF32 : DType::kBf16, run.seed, out_));
    size_t parameters = 0;
    for (const RandomTensor& tensor : model.tensors) {
      parameters += tensor.count();
    }
    Report report{"checkpoint", DescribeEnvironment(), {}, {}};
    report.sections.push_back({"checkpoint",
                               "Random checkpoint",
                               {{"shape", "shape"},
                                {"parameters", "parameters"},
                                {"dtype", "dtype"},
                                {"directory", "directory"}},
                               {{{"shape", shape_},
                                 {"parameters", parameters},
                                 {"dtype", dtype_},
                                 {"seed", run.seed},
                                 {"directory", out_}}}});
    return report;
  }

 private:
  std::string shape_;
  std::string out_;
  std::string dtype_ = "bf16";
};

}  // namespace

std::unique_ptr<Command> MakeCheckpointCommand() {
  return std::make_unique<CheckpointCommand>();
}

}  // namespace steadystate::bench
