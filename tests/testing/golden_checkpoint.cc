#include "tests/testing/golden_checkpoint.h"

#include <filesystem>
#include <fstream>

#include "server/base/json.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

namespace fs = std::filesystem;

fs::path FolderOf(const std::string& golden_case) {
  return fs::path(STEADYSTATE_SOURCE_DIR) / "tests/golden" / golden_case;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Model>> LoadGoldenWith(
    const std::string& golden_case, const nlohmann::json& changes) {
  const fs::path from = FolderOf(golden_case);
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

CheckpointContents ReadGolden(const std::string& golden_case) {
  const fs::path from = FolderOf(golden_case);
  const std::string path = (from / "config.json").string();
  CheckpointContents contents;
  contents.config = ParseJson(ReadWholeFile(path), path).value();
  const auto file =
      SafetensorsFile::Open((from / "model.safetensors").string());
  for (const auto& [name, tensor] : file.value().tensors()) {
    contents.tensors.emplace(name, ContentsOf(tensor));
  }
  return contents;
}

absl::StatusOr<std::shared_ptr<const Model>> LoadContents(
    const CheckpointContents& contents) {
  const TempDirectory directory;
  WriteCheckpoint(contents, directory.path());
  return Model::Load({.path = directory.path(), .weight_dtype = DType::kF32});
}

}  // namespace steadystate
