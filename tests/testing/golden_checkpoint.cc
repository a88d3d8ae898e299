#include "tests/testing/golden_checkpoint.h"

#include <filesystem>
#include <fstream>

#include "server/base/json.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {

absl::StatusOr<std::shared_ptr<const Model>> LoadGoldenWith(
    const std::string& golden_case, const nlohmann::json& changes) {
  namespace fs = std::filesystem;
  const fs::path from =
      fs::path(STEADYSTATE_SOURCE_DIR) / "tests/golden" / golden_case;
  const TempDirectory directory;
  const fs::path to = directory.path();
  const std::string path = (from / "config.json").string();
  auto config = ParseJson(ReadWholeFile(path), path);
  if (!config.ok()) return config.status();
  config->update(changes);
  fs::copy(from / "model.safetensors", to / "model.safetensors");
  std::ofstream(to / "config.json") << config->dump();
  return Model::Load({.path = to.string(), .weight_dtype = DType::kF32});
}

}  // namespace steadystate
