#include "tests/bench/random_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/random_bits.h"

namespace steadystate::bench {
namespace {

namespace fs = std::filesystem;

// A multiple of the values that 64 random bits give.
constexpr size_t kChunk = size_t{1} << 16;
constexpr size_t kValuesPerDraw = 4;

DType StoredAs(const RandomTensor& tensor, DType dtype) {
  return tensor.matrix ? dtype : DType::kF32;
}

float Shape(const RandomTensor& tensor, double uniform) {
  switch (tensor.draw) {
    case Draw::kUniform:
      break;
    case Draw::kLogOfUniform:
      return static_cast<float>(std::log(uniform));
    case Draw::kInverseSoftplus: {
      const double y = std::exp(uniform);
      return static_cast<float>(y + std::log(-std::expm1(-y)));
    }
  }
  return static_cast<float>(uniform);
}

// Values [first, first + values.size()) of a tensor.
void DrawValues(const RandomTensor& tensor, uint64_t seed, size_t first,
                std::vector<float>& values) {
  const double width = (tensor.high - tensor.low) / 65536.0;
  for (size_t i = 0; i < values.size(); i += kValuesPerDraw) {
    uint64_t bits = RandomBits(seed, (first + i) / kValuesPerDraw);
    const size_t end = std::min(i + kValuesPerDraw, values.size());
    for (size_t j = i; j < end; ++j, bits >>= 16) {
      const double sixteen = static_cast<double>(bits & 0xFFFF) + 0.5;
      values[j] = Shape(tensor, tensor.low + width * sixteen);
    }
  }
}

void WriteTensor(const RandomTensor& tensor, DType dtype, uint64_t seed,
                 std::ofstream& file) {
  const size_t count = tensor.count();
  std::vector<float> values;
  std::vector<uint16_t> halves(kChunk);
  for (size_t first = 0; first < count; first += kChunk) {
    values.resize(std::min(kChunk, count - first));
    DrawValues(tensor, seed, first, values);
    const void* data = values.data();
    if (StoredAs(tensor, dtype) == DType::kBf16) {
      ConvertToBf16(values.size(), values.data(), halves.data());
      data = halves.data();
    }
    file.write(static_cast<const char*>(data),
               static_cast<std::streamsize>(values.size() *
                                            SizeOf(StoredAs(tensor, dtype))));
  }
}

// The JSON object at the head of a .safetensors file.
std::string Header(const RandomModel& model, DType dtype) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t begin = 0;
  for (const RandomTensor& tensor : model.tensors) {
    const DType stored = StoredAs(tensor, dtype);
    const size_t end = begin + tensor.count() * SizeOf(stored);
    header[tensor.name] = {{"dtype", stored == DType::kBf16 ? "BF16" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

absl::Status CloseFile(std::ofstream& file, const std::string& path) {
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, " cannot be written: is there room?"));
}

}  // namespace

absl::Status WriteRandomCheckpoint(const RandomModel& model, DType dtype,
                                   uint64_t seed,
                                   const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  const std::string weights = directory + "/model.safetensors";
  if (fs::exists(weights, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(weights, " exists; give another directory"));
  }
  std::ofstream file(weights, std::ios::binary);
  const std::string header = Header(model, dtype);
  for (int shift = 0; shift < 64; shift += 8) {
    file.put(static_cast<char>(uint64_t{header.size()} >> shift));
  }
  file << header;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    WriteTensor(model.tensors[i], dtype, RandomBits(seed, i), file);
  }
  const absl::Status written = CloseFile(file, weights);
  if (!written.ok()) return written;
  const std::string config = directory + "/config.json";
  std::ofstream config_file(config);
  config_file << model.config.dump(1) << '\n';
  return CloseFile(config_file, config);
}

}  // namespace steadystate::bench
