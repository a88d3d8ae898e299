#include "tests/server/model/conformance/spread_weights.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kernels/dtype.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/server/model/conformance/sequence.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {
namespace {

constexpr int kLargestExponent = 12;

double Rms(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) {
    squares += std::pow(static_cast<double>(value), 2);
  }
  return std::sqrt(squares / static_cast<double>(row.size()));
}

void SpreadRow(std::span<float> row, std::minstd_rand& random) {
  const double before = Rms(row);
  for (float& value : row) {
    const auto draw =
        static_cast<int>((random() >> 8) % (2 * kLargestExponent + 1));
    value = std::ldexp(value, draw - kLargestExponent);
  }
  const double after = Rms(row);
  if (after == 0) return;
  const auto scale = static_cast<float>(before / after);
  for (float& value : row) value *= scale;
}

bool IsProjection(const std::string& name, const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && name.ends_with(".weight") &&
         name.find("embed") == std::string::npos;
}

[[noreturn]] void Die(const std::string& directory, const absl::Status& why) {
  std::fprintf(stderr, "%s: %s\n", directory.c_str(), why.ToString().c_str());
  std::abort();
}

}  // namespace

std::shared_ptr<const Model> LoadWithSpreadWeights(const std::string& directory,
                                                   DType weights) {
  const auto file = SafetensorsFile::Open(directory + "/model.safetensors");
  if (!file.ok()) Die(directory, file.status());
  CheckpointContents contents;
  std::minstd_rand random(7);
  for (const auto& [name, tensor] : file->tensors()) {
    TensorContents copy = ContentsOf(tensor);
    copy.dtype = DType::kF32;
    if (IsProjection(name, tensor)) {
      const size_t in = tensor.shape[1];
      for (size_t i = 0; i < copy.values.size(); i += in) {
        SpreadRow({copy.values.data() + i, in}, random);
      }
    }
    contents.tensors.emplace(name, std::move(copy));
  }
  const TempDirectory changed;
  WriteCheckpoint(contents, changed.path());
  // As it is, for it may have Infinity, which is no JSON.
  std::filesystem::copy_file(directory + "/config.json",
                             changed.path() + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  return LoadGolden(changed.path(), weights);
}

}  // namespace steadystate
