#ifndef STEADYSTATE_TESTS_TESTING_TINY_MODEL_H_
#define STEADYSTATE_TESTS_TESTING_TINY_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "server/model/model.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {

// A GLA model small enough to be made in every test.
struct TinyModelOptions {
  size_t vocab_size = 256;
  size_t hidden_size = 32;
  size_t layers = 2;
  size_t heads = 2;
  size_t kv_heads = 2;  // divides heads
  size_t intermediate_size = 48;
  bool byte_tokenizer = true;  // needs vocab_size >= 256
  bool short_conv = false;
  bool output_gate = true;
  std::vector<int32_t> eos_tokens{};      // empty: none
  std::optional<size_t> softmax_layer{};  // this layer is softmax attention
  size_t softmax_window = 0;            // 0: none; the layer then has a cap ...
  size_t max_position_embeddings = 64;  // ... of so many tokens
  DType stored = DType::kF32;
  uint64_t seed = 1;
};

// Config and random weights; the same for the same options everywhere. Logits
// spread over several units, so that argmax and sampling are not degenerate.
CheckpointContents MakeTinyCheckpoint(const TinyModelOptions& options);

// A tiny checkpoint in a temporary directory that lives as long as the object.
class TinyModel {
 public:
  explicit TinyModel(const TinyModelOptions& options = {});

  // The directory, for ModelOptions::path.
  const std::string& path() const { return directory_.path(); }

  // Loads it; ends the program with the error if that fails.
  std::shared_ptr<const Model> Load(DType weight_dtype = DType::kF32) const;

 private:
  TempDirectory directory_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_TINY_MODEL_H_
