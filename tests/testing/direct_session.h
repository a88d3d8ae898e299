#ifndef STEADYSTATE_TESTS_TESTING_DIRECT_SESSION_H_
#define STEADYSTATE_TESTS_TESTING_DIRECT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/thread_pool.h"
#include "server/model/model.h"
#include "server/model/workspace.h"

namespace steadystate {

// One session driven straight on a model, without an engine: what every other
// way of serving it must agree with, bit for bit. Thread-compatible.
class DirectSession {
 public:
  // The model outlives the session.
  explicit DirectSession(const Model& model, size_t max_rows = 64,
                         size_t threads = 1);

  // Absorbs tokens in one call; returns the logits after each of them,
  // f32[tokens, vocab_size].   REQUIRES: at most max_rows tokens.
  std::vector<float> Feed(std::span<const int32_t> tokens);

  uint64_t position() const { return position_; }

  // The bytes of the state.
  std::span<const std::byte> state() const;

 private:
  const Model& model_;
  ThreadPool pool_;
  Workspace workspace_;
  AlignedFloats state_;
  uint64_t position_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_DIRECT_SESSION_H_
