#ifndef STEADYSTATE_SERVER_ENGINE_EMBED_OUTPUT_H_
#define STEADYSTATE_SERVER_ENGINE_EMBED_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/engine/request.h"

namespace steadystate {

// Turns the hidden vectors of a sequence, which come piece by piece, into the
// rows that a request wants. Thread-compatible.
class EmbedOutput {
 public:
  EmbedOutput(Pooling pooling, size_t hidden_size);

  // Most rows of one piece: what is answered at once stays within 1 MiB, or is
  // one row.
  static size_t MaxPieceRows(size_t hidden_size);

  // The next vectors of the sequence, in order.
  //   hidden    f32[rows, D]
  //   position  after the first of them
  void Add(std::span<const float> hidden, uint64_t position);

  // Nothing comes any more. REQUIRES: something came.
  void Close();

  // Hands over the rows that are complete.
  void Deliver(EmbedSink& sink);

  EmbedSummary summary() const {
    return {.position = position_, .tokens = rows_};
  }

 private:
  void Emit(uint64_t position, std::span<const float> hidden);

  const Pooling pooling_;
  const size_t hidden_size_;
  uint64_t rows_ = 0;
  uint64_t position_ = 0;
  std::vector<double> sum_;  // f64[D], kMean only
  std::vector<float> last_;  // f32[D], kLast only
  std::vector<EmbeddedRow> complete_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_EMBED_OUTPUT_H_
