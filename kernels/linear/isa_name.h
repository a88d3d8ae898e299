#ifndef STEADYSTATE_KERNELS_LINEAR_ISA_NAME_H_
#define STEADYSTATE_KERNELS_LINEAR_ISA_NAME_H_

#include <string>

namespace steadystate {

// oneDNN's name, as ONEDNN_MAX_CPU_ISA takes it, of a dnnl_cpu_isa_t. In
// numbers, because versions 2 and 3 declare different subsets of them.
std::string IsaName(int isa);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_ISA_NAME_H_
