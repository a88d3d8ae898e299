#ifndef STEADYSTATE_SERVER_MODEL_PARTS_WIDE_WEIGHTS_H_
#define STEADYSTATE_SERVER_MODEL_PARTS_WIDE_WEIGHTS_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace steadystate {

// True of matrices that keep 8 bits a weight where others have 4
// (--weight_dtype int4): what is put out again and again, or decides how much
// of the past is, would make all later tokens pay. They are
//   what decays, forget gates, steps and betas come from, by name, whatever
//   stands behind the name's first dot;
//   matrices of at most 16 rows, which are nearly nothing anyway.
// The head is another (decoder.cc). Routers, gates of shared experts and
// whatever is no product of rows by a matrix are float32 in any case.
//   name  without ".weight": "b_proj", "gk_proj.0"; of a part of a tensor
//         the tensor's and the part's, "in_proj.dt"
bool IsWide(absl::string_view name, size_t rows);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PARTS_WIDE_WEIGHTS_H_
