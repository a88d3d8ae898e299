#ifndef STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_OF_CPU_H_
#define STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_OF_CPU_H_

#include "kernels/linear/panel_product.h"

namespace steadystate {

// MultiplyPanel, by instructions that not every CPU has.
#if defined(__x86_64__)
void MultiplyPanelF32(const PanelProduct& product);         // AVX512F
void MultiplyPanelBf16(const PanelProduct& product);        // and AVX512_BF16
void MultiplyPanelInt8(const PanelProduct& product);        // and AVX512_VNNI
void MultiplyPanelBf16Blocks(const PanelProduct& product);  // AVX512F
#endif

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_OF_CPU_H_
