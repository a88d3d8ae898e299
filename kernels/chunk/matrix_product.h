#ifndef STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_H_
#define STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_H_

#include <cstddef>

namespace steadystate {

// C <- diag(keep) C + A B, or C <- A B without `keep`.
struct MatrixProductArgs {
  size_t m = 0;  // rows of A and C
  size_t n = 0;  // columns of B and C
  size_t k = 0;  // columns of A, rows of B

  // f32[m, k], element (i, x) at a[i a_row + x a_col]: also a transposed one.
  const float* a = nullptr;
  size_t a_row = 0;
  size_t a_col = 1;
  // f32[k, n; stride b_row]
  const float* b = nullptr;
  size_t b_row = 0;
  // f32[m, n; stride c_row]  in/out, or out without `keep`
  float* c = nullptr;
  size_t c_row = 0;
  // What is kept of C's row i: keep[i keep_step]; or null for nothing. A factor
  // near one may be a sum of two floats, the nearest and what that lacks.
  const float* keep = nullptr;
  const float* keep_low = nullptr;  // likewise, or null: zeros
  size_t keep_step = 0;

  // Nothing of A above its diagonal counts. It is read, and must be zero, up to
  // column i / 4 * 4 + 3 of row i, as far as there is such a column.
  bool lower_a = false;
  // Nothing of C above its diagonal is wanted: it may be computed, or be left
  // as it is.
  bool lower_c = false;
};

// One product. Each element of A B is summed in the order of the inner
// dimension whatever m and n are, and what is kept of C is added last. C
// aliases neither A nor B; any alignment.
void MatrixProduct(const MatrixProductArgs& args);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_MATRIX_PRODUCT_H_
