#ifndef STEADYSTATE_TESTS_BENCH_MODEL_SOURCE_H_
#define STEADYSTATE_TESTS_BENCH_MODEL_SOURCE_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options/options.h"
#include "nlohmann/json.hpp"
#include "server/engine/engine.h"
#include "server/model/model.h"
#include "tests/bench/command.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::bench {

// Which model a benchmark runs, and by which engine: options that several
// commands share.
class ModelSource {
 public:
  // `shape` is taken where neither --shape nor --model is given; with --quick a
  // tiny one.
  explicit ModelSource(const std::string& shape);

  // --shape, --model; --weight_dtype, --state_dtype, --threads and what else
  // the server has, too.
  void AppendTo(client::OptionTable& table);

  // INVALID_ARGUMENT, naming the option.
  absl::Status Check(const RunOptions& run);

  // What the report calls it: the shape, or the directory's name.
  std::string name() const;
  size_t threads() const { return threads_; }
  // Memory is left as it is.
  const EngineOptions& engine_options() const { return engine_; }

  // The checkpoint's directory; makes a random one, which lives as long as this
  // object, unless --model names one.
  absl::StatusOr<std::string> Directory(const RunOptions& run);

  // The model, in this process.
  absl::StatusOr<std::shared_ptr<const Model>> Load(const RunOptions& run);

  // Enters what the model runs with into a report's environment.
  void Describe(const Model& model, nlohmann::json& environment) const;

  // The flags by which a server runs the same.
  absl::StatusOr<std::vector<std::string>> ServerFlags(const RunOptions& run);

 private:
  const std::string default_shape_;
  const std::string shape_help_;
  std::optional<std::string> shape_option_;
  std::optional<std::string> model_;
  std::string shape_;  // unless there is a model_
  std::string weight_dtype_ = "auto";
  std::string state_dtype_ = "f32";
  std::optional<uint32_t> threads_option_;
  std::optional<uint32_t> batch_rows_;
  std::optional<uint32_t> chunk_rows_;
  size_t threads_ = 1;
  EngineOptions engine_;
  std::unique_ptr<TempDirectory> directory_;
};

// Bytes of weights that a decode step reads: every matrix but the embedding
// table, of which it reads rows; a tied table is read as the head.
double StepWeightBytes(const Model& model);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_MODEL_SOURCE_H_
