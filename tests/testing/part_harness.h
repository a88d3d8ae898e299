#ifndef STEADYSTATE_TESTS_TESTING_PART_HARNESS_H_
#define STEADYSTATE_TESTS_TESTING_PART_HARNESS_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "kernels/linear/linear.h"
#include "kernels/thread_pool.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/config.h"
#include "server/checkpoint/weight_store.h"
#include "server/model/mixer.h"
#include "server/model/mixer_builder.h"
#include "server/model/state_layout.h"
#include "server/model/workspace.h"
#include "tests/testing/checkpoint_writer.h"
#include "tests/testing/temp_directory.h"

namespace steadystate {

// What the parts of a mixer are made from and run with, without a model around
// them: make parts with builder(), then Start(), then run them over segment().
// Ends the program where a model would refuse to load. Thread-compatible.
class PartHarness {
 public:
  // The parts see these tensors and this config.
  explicit PartHarness(const CheckpointContents& contents,
                       size_t hidden_size = 8);

  // Weights begin with "attn.".
  const MixerBuilder& builder() const { return *builder_; }

  // Makes state and scratch memory for batches of up to max_rows rows.
  void Start(size_t max_rows, size_t threads = 1);

  Workspace::Buffers& buffers() { return *buffers_; }
  const StateLayout& layout() const { return layout_; }
  std::byte* state() const;

  // The rows 0 to rows - 1 of a batch, after `position` tokens.
  Segment segment(uint64_t position, size_t rows,
                  Pass pass = Pass::kCausal) const;

 private:
  TempDirectory directory_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<Config> config_;
  std::optional<WeightStore> store_;
  std::unique_ptr<LinearFactory> linears_;
  StateLayoutBuilder layout_builder_;
  ScratchSize scratch_;
  std::optional<MixerBuilder> builder_;
  StateLayout layout_;
  AlignedFloats state_;
  std::optional<ThreadPool> pool_;
  std::optional<Workspace::Buffers> buffers_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_PART_HARNESS_H_
