#include "kernels/linear/isa_name.h"

#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

struct NamedIsa {
  int isa;
  const char* name;
};

// An instruction set's bits hold those of the sets that it contains. Where two
// numbers have one name, the first is of version 2.
constexpr NamedIsa kIsas[] = {
    {0x1, "sse41"},
    {0x3, "avx"},
    {0x7, "avx2"},
    {0x407, "avx2_vnni"},
    {0xf, "avx2_vnni"},
    {0x1f, "avx2_vnni_2"},
    {0x27, "avx512_core"},
    {0x67, "avx512_core_vnni"},
    {0xe7, "avx512_core_bf16"},
    {0x1ef, "avx512_core_fp16"},
    {0x3e7, "avx512_core_amx"},
    {0xfef, "avx512_core_amx"},
    {0x1fef, "avx512_core_amx_fp16"},
};

}  // namespace

std::string IsaName(int isa) {
  for (const NamedIsa& row : kIsas) {
    if (row.isa == isa) return row.name;
  }
  return absl::StrCat("isa_0x", absl::Hex(isa));
}

}  // namespace steadystate
