#ifndef STEADYSTATE_KERNELS_LINEAR_PANEL_AMX_H_
#define STEADYSTATE_KERNELS_LINEAR_PANEL_AMX_H_

#include "kernels/dtype.h"
#include "kernels/linear/panel_product.h"

namespace steadystate {

// The loop of FindPanelLoops that multiplies by AMX's tiles, for weights of
// kBf16 or kI8. Null where the CPU has no such tiles or where the kernel
// doesn't let this process have them, and for other weights. Thread-safe.
MultiplyPanel FindAmxPanel(DType weights);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_PANEL_AMX_H_
