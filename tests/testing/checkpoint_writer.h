#ifndef STEADYSTATE_TESTS_TESTING_CHECKPOINT_WRITER_H_
#define STEADYSTATE_TESTS_TESTING_CHECKPOINT_WRITER_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint.h"

namespace steadystate {

// A tensor to be written.
struct TensorContents {
  DType dtype = DType::kF32;  // what it is stored as
  std::vector<size_t> shape;
  std::vector<float> values;
};

// A checkpoint in memory: change what you like, then write it.
struct CheckpointContents {
  nlohmann::json config;
  std::map<std::string, TensorContents> tensors;
};

// A tensor that lies in a file, to be written again: of type F32, BF16 or F16.
TensorContents ContentsOf(const StoredTensor& tensor);

// The elements as they are stored, rounded to nearest, ties to even.
std::string EncodeTensor(const TensorContents& tensor);

// The bytes of a .safetensors file. `header` is its JSON object, without
// padding; this and `data` may be as wrong as a test wants.
std::string SafetensorsBytes(const std::string& header,
                             const std::string& data);

// The same for a map of tensors, well formed.
std::string SafetensorsBytes(
    const std::map<std::string, TensorContents>& tensors);

// Writes config.json and model.safetensors into a directory.
void WriteCheckpoint(const CheckpointContents& contents,
                     const std::string& directory);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_CHECKPOINT_WRITER_H_
