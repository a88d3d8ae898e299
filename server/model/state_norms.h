#ifndef STEADYSTATE_SERVER_MODEL_STATE_NORMS_H_
#define STEADYSTATE_SERVER_MODEL_STATE_NORMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/model/state_layout.h"

namespace steadystate {

// How large the numbers of one slot of a state are.
struct SlotNorm {
  size_t layer = 0;
  std::string name;
  // Of the elements that are finite: the square root of the sum of their
  // squares, added up in double, and the largest magnitude.
  double l2_norm = 0;
  double max_abs = 0;
  uint64_t non_finite = 0;  // elements that are not
};

// Of all slots, in the layout's order; matrices in int16 and their exponents
// are one. Of per-token slots only the rows that a session at `position` has.
// Reads all of that: takes as long as copying it.
//   state  laid out by `layout`; not looked at where the position is 0
std::vector<SlotNorm> NormsOf(const StateLayout& layout, const std::byte* state,
                              uint64_t position);

// Whether none of them has an element that is NaN or infinite. The same.
bool IsFinite(const StateLayout& layout, const std::byte* state,
              uint64_t position);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_STATE_NORMS_H_
