// A .safetensors file. What is accepted lies within the file and covers its
// data once.
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/checkpoint/checkpoint.h"
#include "tests/fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using steadystate::Require;
  const std::span<const std::byte> file(
      reinterpret_cast<const std::byte*>(data), size);
  const auto tensors = steadystate::ReadTensors("input", file);
  if (!tensors.ok()) return 0;
  size_t bytes = 0;
  for (const auto& [name, tensor] : *tensors) {
    bytes += tensor.bytes;
    if (tensor.bytes == 0) continue;
    Require(tensor.data >= file.data(), "it begins within the file");
    Require(
        tensor.bytes <= size - static_cast<size_t>(tensor.data - file.data()),
        "it ends within the file");
  }
  Require(bytes <= size, "tensors do not overlap");
  return 0;
}
