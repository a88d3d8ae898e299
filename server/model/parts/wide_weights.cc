#include "server/model/parts/wide_weights.h"

#include <algorithm>

namespace steadystate {
namespace {

constexpr size_t kFewRows = 16;

constexpr absl::string_view kNames[] = {
    "a_proj",       "b_proj",        // delta rules: decay, beta
    "in_proj_a",    "in_proj_b",     // the same of Qwen3.5 ...
    "in_proj_ba",                    // ... and Qwen3-Next
    "gk_proj",                       // GLA
    "f_proj",                        // HGRN, HGRN-2, KDA
    "dt_proj",      "x_proj",        // Mamba: steps; those, B and C
    "w_proj",                        // RWKV-6; its mixing is x_proj, too
    "w_lora",       "a_lora",        // RWKV-7
    "f_a_proj",     "f_b_proj",      // Kimi's delta attention
    "igate_preact", "fgate_preact",  // mLSTM
    "decay_proj",   "decay_k_proj",  // the general recurrence
    "decay_v_proj", "decay_phase_proj",
};

// Parts of tensors.
constexpr absl::string_view kParts[] = {
    "in_proj.dt",  // Mamba-2
};

}  // namespace

bool IsWide(absl::string_view name, size_t rows) {
  const absl::string_view base = name.substr(0, name.find('.'));
  return rows <= kFewRows || std::ranges::count(kNames, base) != 0 ||
         std::ranges::count(kParts, name) != 0;
}

}  // namespace steadystate
