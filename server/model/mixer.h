#ifndef STEADYSTATE_SERVER_MODEL_MIXER_H_
#define STEADYSTATE_SERVER_MODEL_MIXER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/linear/tiling.h"

namespace steadystate {

class Workspace;

// What a forward pass does with the state of a segment.
enum class Pass : uint8_t {
  kCausal,  // each row is absorbed, then read out: what sessions do
  // The two halves of a bidirectional pass, where every row sees the whole
  // sequence: all its rows are absorbed, the outputs meaning nothing; then all
  // are read out and the state stays as it is.
  kAbsorb,
  kRead,
};

// One input of a batch: a token id, or an embedding that takes the place of the
// token's row of the embedding table.
struct InputRow {
  int32_t token = -1;                // in [0, vocab_size) unless ...
  const float* embedding = nullptr;  // ... f32[D] is given
};

// Consecutive rows of a batch that belong to one session, in order.
struct Segment {
  std::byte* state = nullptr;  // the session's state, laid out by StateLayout
  uint64_t position = 0;       // tokens absorbed before the first row
  size_t first_row = 0;
  size_t rows = 0;  // >= 1
  Pass pass = Pass::kCausal;
};

// How the rows of a segment are multiplied: as decode if it is a single row of
// a causal pass, else as prefill. A function of the session's own request.
inline RowClass RowClassOf(const Segment& segment) {
  return segment.pass == Pass::kCausal && segment.rows == 1
             ? RowClass::kDecode
             : RowClass::kPrefill;
}

// A sequence mixer: turns the tokens seen so far into one output per token
// through state slots that it declared when it was made. Immutable after
// creation; thread-safe.
class Mixer {
 public:
  virtual ~Mixer() = default;

  // Advances every segment by its rows; row t of a segment sees the state after
  // rows 0..t of it.
  //   rows  B = all rows of the batch; the segments cover each exactly once
  //   x     f32[B, D]  layer input, already normalised
  //   y     f32[B, D]  overwritten
  // The states of the segments are distinct. A row's result and a session's
  // state depend on that session alone, bit for bit.
  virtual void Forward(std::span<const Segment> segments, size_t rows,
                       const float* x, float* y,
                       Workspace& workspace) const = 0;

  // True if there is no state: a row's result depends on that row alone.
  virtual bool per_token() const { return false; }

  // True if segments may have passes other than kCausal: the state is a sum
  // over the tokens in which order does not matter, or there is none.
  virtual bool bidirectional() const { return per_token(); }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_MIXER_H_
