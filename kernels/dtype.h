#ifndef STEADYSTATE_KERNELS_DTYPE_H_
#define STEADYSTATE_KERNELS_DTYPE_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// Element types of tensors in checkpoints and of packed weights. kI8 and kI4
// are of the latter only: whole numbers that say nothing without the scale
// beside them.
enum class DType : uint8_t { kF32, kBf16, kF16, kI8, kI4 };

// Bytes of one element. REQUIRES: not kI4, two of which share a byte.
constexpr size_t SizeOf(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kI8 ? 1 : 2;
}

// Bytes that a packed weight takes. With kI4 every 32 share a scale of bf16;
// the few columns that are kept wide (WeightRows) take twice as much.
constexpr double BytesPerWeight(DType dtype) {
  return dtype == DType::kI4 ? 0.5625 : static_cast<double>(SizeOf(dtype));
}

// The name used in flags, logs and errors: "f32", "bf16", "f16", "int8",
// "int4".
constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI8:
      return "int8";
    case DType::kI4:
      return "int4";
  }
  return "?";
}

// A tensor's elements where they lie, in a mapped file for instance.
struct TypedData {
  const void* data = nullptr;  // any alignment
  DType dtype = DType::kF32;
};

// Converts n elements starting at element `first` of `from` to f32. Exact.
// REQUIRES: not of kI4.
//   to  f32[n]  out
void ConvertToF32(TypedData from, size_t first, size_t n, float* to);

// Rounds n values to bf16, to nearest, ties to even; NaN stays NaN.
//   from  f32[n]  in      to  bf16[n]  out
// Dispatched to the best SIMD target; all targets give the same bits.
void ConvertToBf16(size_t n, const float* from, uint16_t* to);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_DTYPE_H_
