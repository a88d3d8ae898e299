#include "tests/testing/checkpoint_writer.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace steadystate {
namespace {

// f32 -> f16 by way of the spacing of f16 numbers at the value's size.
uint16_t ToF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(static_cast<double>(value));
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  exponent = std::max(exponent - 1, -14);
  const double mantissa = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  // Subnormals have exponent field 0 and no implied 1024; a mantissa that was
  // rounded up to 2048 carries into the exponent by itself.
  const int bits = (exponent + 14) * 1024 + static_cast<int>(mantissa);
  return static_cast<uint16_t>(sign | bits);
}

const char* StoredName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBf16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kI8:
    case DType::kI4:
      break;  // no tensor of a checkpoint has it
  }
  return "?";
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
}

}  // namespace

TensorContents ContentsOf(const StoredTensor& tensor) {
  TensorContents contents;
  contents.dtype = tensor.dtype == "BF16"  ? DType::kBf16
                   : tensor.dtype == "F16" ? DType::kF16
                                           : DType::kF32;
  contents.shape = tensor.shape;
  contents.values.resize(tensor.bytes / SizeOf(contents.dtype));
  ConvertToF32({tensor.data, contents.dtype}, 0, contents.values.size(),
               contents.values.data());
  return contents;
}

std::string EncodeTensor(const TensorContents& tensor) {
  const size_t n = tensor.values.size();
  std::string bytes(n * SizeOf(tensor.dtype), '\0');
  if (tensor.dtype == DType::kF32) {
    std::memcpy(bytes.data(), tensor.values.data(), bytes.size());
    return bytes;
  }
  std::vector<uint16_t> halves(n);
  if (tensor.dtype == DType::kBf16) {
    ConvertToBf16(n, tensor.values.data(), halves.data());
  } else {
    for (size_t i = 0; i < n; ++i) halves[i] = ToF16(tensor.values[i]);
  }
  std::memcpy(bytes.data(), halves.data(), bytes.size());
  return bytes;
}

std::string SafetensorsBytes(const std::string& header,
                             const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes.push_back(static_cast<char>(uint64_t{header.size()} >> shift));
  }
  return bytes + header + data;
}

std::string SafetensorsBytes(
    const std::map<std::string, TensorContents>& tensors) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += EncodeTensor(tensor);
    header[name] = {{"dtype", StoredName(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  return SafetensorsBytes(header.dump(), data);
}

void WriteCheckpoint(const CheckpointContents& contents,
                     const std::string& directory) {
  WriteFile(directory + "/config.json", contents.config.dump(1));
  WriteFile(directory + "/model.safetensors",
            SafetensorsBytes(contents.tensors));
}

}  // namespace steadystate
