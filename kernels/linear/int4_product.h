#ifndef STEADYSTATE_KERNELS_LINEAR_INT4_PRODUCT_H_
#define STEADYSTATE_KERNELS_LINEAR_INT4_PRODUCT_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// Inputs, and the weights of a column that they meet, that are whole numbers
// times one scale.
inline constexpr size_t kInt4Group = 32;
// Columns of W that lie together in memory.
inline constexpr size_t kInt4Panel = 16;
// Bytes of the weights of one group of a panel.
inline constexpr size_t kInt4PanelBytes = kInt4Group * kInt4Panel / 2;
// Columns of a block, and rows, that are multiplied at once, at most.
inline constexpr size_t kInt4BlockColumns = 64;
inline constexpr size_t kInt4BlockRows = 64;
// What a weight of zero is stored as: 4 bits, 0 to 15, are -8 to 7.
inline constexpr int kInt4Zero = 8;

constexpr size_t Int4Groups(size_t in) {
  return (in + kInt4Group - 1) / kInt4Group;
}

// One group of inputs of a row, as rounded.
struct Int4Inputs {
  int8_t x[kInt4Group];  // -127 to 127
  float scale;           // what they are multiples of
  int32_t offset;        // -kInt4Zero times their sum
};

// Rounds each group of a row by itself: x / s to the nearest whole numbers,
// ties to even, where its scale s is max |x| / 127. s is
//   0 if no |x| of the group reaches 1e-30: all are zeros;
//   NaN if any is infinite or NaN: likewise, and so is what comes out.
// The last group is filled up with zeros.
//   x   f32[in]  in      to  [Int4Groups(in); stride]  out
// All SIMD targets give the same bits. Thread-safe.
void RoundInt4Inputs(size_t in, const float* x, Int4Inputs* to, size_t stride);

// Bytes of one group of a block of columns: of each panel the weights,
// u8[4, 16, 4], then of each the scales, bf16[16]. Byte k of a column in step s
// has input 4 s + k in its lower half and 16 + 4 s + k in its upper one.
constexpr size_t Int4GroupBytes(size_t panels) {
  return panels * (kInt4PanelBytes + kInt4Panel * sizeof(uint16_t));
}

// Some rows of X times one block of columns of W.
struct Int4Product {
  size_t groups;
  size_t panels;           // of kInt4Panel columns: 1 to 4
  const uint8_t* weights;  // groups of Int4GroupBytes(panels); even address
  size_t rows;             // at most kInt4BlockRows
  const Int4Inputs* x;     // [groups, rows; stride x_stride]
  size_t x_stride;
  float* sums;  // f32[rows, kInt4BlockColumns]  in/out; aligned to 64 bytes
};

// Which instructions multiply bytes, where there is a choice.
enum class ByteProducts : uint8_t {
  kBest,   // VNNI, where the CPU has it
  kPlain,  // others
};

// sums[r, j] += (float(n) s_rg) d_jg, group g after group, where n is the exact
// sum over a group of whole inputs times whole weights, and s and d are the
// scales. Every operation of floats is rounded: nothing is fused, so all SIMD
// targets give the same bits, and a row's are a function of the row and of W.
// Reads W once, from its begin to its end. Thread-safe.
void MultiplyInt4(const Int4Product& product,
                  ByteProducts products = ByteProducts::kBest);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_INT4_PRODUCT_H_
