#ifndef STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SEQUENCE_H_
#define STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SEQUENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "server/model/model.h"

namespace steadystate {

// What every mechanism is held to: the families of the registry, by model_type.
std::vector<std::string> AllFamilies();

// The directory of a family's plain golden checkpoint.
std::string GoldenFolder(const std::string& model_type);

// Loads it; ends the program with the error if that fails.
std::shared_ptr<const Model> LoadGolden(const std::string& directory,
                                        DType weights = DType::kF32);

// One sequence on a model: its position and the bytes of its state, to be
// copied, kept and compared. Thread-compatible.
class Sequence {
 public:
  explicit Sequence(const Model& model);

  const std::vector<std::byte>& state() const { return state_; }
  uint64_t position() const { return position_; }

  // The bytes as they were, at the position where they were.
  void Restore(std::vector<std::byte> state, uint64_t position);

 private:
  friend class Runner;
  std::vector<std::byte> state_;
  uint64_t position_ = 0;
};

// A part of a batch.
struct Fed {
  Sequence* sequence = nullptr;
  std::span<const int32_t> tokens;
};

// Runs sequences on a model. Thread-compatible.
class Runner {
 public:
  explicit Runner(const Model& model, size_t max_rows = 256,
                  size_t threads = 1);
  ~Runner();

  // Feeds all parts in one call; returns the logits after each token of each
  // part, f32[tokens, vocab_size].
  std::vector<std::vector<float>> FeedTogether(std::span<const Fed> parts);

  // Feeds tokens to one sequence in calls of these sizes, over and over;
  // returns the logits after each.
  std::vector<float> Feed(Sequence& sequence, std::span<const int32_t> tokens,
                          std::span<const size_t> pieces);

  // The same, returning only the logits after the last token.
  std::vector<float> FeedForLast(Sequence& sequence,
                                 std::span<const int32_t> tokens,
                                 std::span<const size_t> pieces);

 private:
  // Hidden vectors of a batch.
  std::vector<float> Forward(std::span<const Fed> parts);
  std::vector<float> Head(size_t rows, const float* hidden);

  const Model& model_;
  ThreadPool pool_;
  Workspace workspace_;
};

// Tokens and sizes of pieces that look random, the same for the same seed.
std::vector<int32_t> RandomTokens(const Model& model, size_t count,
                                  uint32_t seed);
std::vector<size_t> RandomPieces(size_t count, size_t most, uint32_t seed);

// sqrt(sum (a - b)^2 / sum b^2).
double RelativeRmsDifference(std::span<const float> a,
                             std::span<const float> b);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_MODEL_CONFORMANCE_SEQUENCE_H_
