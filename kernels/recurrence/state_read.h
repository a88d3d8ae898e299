#ifndef STEADYSTATE_KERNELS_RECURRENCE_STATE_READ_H_
#define STEADYSTATE_KERNELS_RECURRENCE_STATE_READ_H_

#include <cstddef>

namespace steadystate {

// o <- scale * S^T q: another query of a state that stays as it is. The same
// bits as those of the steps that read after their update, for the same S.
//   q  f32[K]  in     state  f32[K, V]  in     o  f32[V]  out
// REQUIRES: o aliases nothing; any alignment; K, V >= 1.
// Cost: 2 K V flop; 4 K V bytes of state traffic.
void ReadState(size_t K, size_t V, float scale, const float* q,
               const float* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_STATE_READ_H_
