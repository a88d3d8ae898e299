#ifndef STEADYSTATE_KERNELS_LINEAR_TILE_MATMUL_H_
#define STEADYSTATE_KERNELS_LINEAR_TILE_MATMUL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace steadystate {

// oneDNN's name, as ONEDNN_MAX_CPU_ISA takes it, of a dnnl_cpu_isa_t. In
// numbers, because versions 2 and 3 declare different subsets of them.
std::string IsaName(int isa);

// What multiplies here.
struct MatmulLibrary {
  std::string isa;      // oneDNN's effective instruction set, "avx2"
  std::string version;  // oneDNN's, "2.6.3"
  bool avx512 = false;
  bool vnni = false;         // int8 by AVX-512's VNNI or AVX's
  bool native_bf16 = false;  // AVX512_BF16 or AMX
  bool amx = false;          // bf16 and int8 by tiles of the CPU's own
};
MatmulLibrary DescribeMatmulLibrary();

// Y = X W for tiles of X of a few fixed sizes and a block of columns of W, by
// oneDNN on the calling thread alone. The types follow from that of W:
//
//   W (given as its transpose, [width, in])   f32   bf16   s8
//   X [rows, in]                              f32   bf16   u8
//   Y [rows, width]                           f32   f32    s32
//
// All are row-major and contiguous, but that the rows of X are RowBytes apart
// with zeros in between; one packed W serves all sizes. Whether the
// sizes agree to the bit, and whether whole numbers are exact, is for the
// caller to try. Immutable; thread-safe given distinct scratch.
class TileMatmul {
 public:
  // Leaves out those of `sizes` that oneDNN cannot do. RESOURCE_EXHAUSTED if
  // there is no memory, INTERNAL if oneDNN refuses altogether.
  // REQUIRES: sizes ascend; OpenMP has one thread.
  static absl::StatusOr<std::unique_ptr<TileMatmul>> Create(
      DType weights, size_t in, size_t width, std::span<const size_t> sizes);
  ~TileMatmul();

  const std::vector<size_t>& sizes() const;   // rows of each tile, ascending
  size_t packed_bytes() const;                // of one packed W
  const std::string& implementation() const;  // "brg:avx512_core_bf16"

  // Where a packed W lies in panels (panel_product.h): the bytes of each.
  std::optional<size_t> panel_bytes() const;

  // A packed W, whose bytes belong to the caller.
  class Weights {
   public:
    Weights();
    ~Weights();
    Weights(Weights&&) noexcept;
    Weights& operator=(Weights&&) noexcept;

    const std::byte* data() const;

   private:
    friend class TileMatmul;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  //   rows  [width, in]  in      place  packed_bytes(), overwritten; aligned
  //   to 64 bytes, outlives the result
  // Errors as of Create.
  absl::StatusOr<Weights> Pack(const void* rows, void* place) const;

  // What one thread works with; grows to the largest need.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(Scratch&&) noexcept;
    Scratch& operator=(Scratch&&) noexcept;

    // Readies it for tiles of matmul.sizes()[size]: Run with them does not
    // allocate, but for what oneDNN does. Ends the program without memory.
    void Reserve(const TileMatmul& matmul, size_t size);

   private:
    friend class TileMatmul;
    struct Memory;
    std::unique_ptr<Memory> memory_;
  };

  // Multiplies one tile of sizes()[size] rows.
  // REQUIRES: `weights` packed by this object, `scratch` reserved for this.
  void Run(size_t size, const Weights& weights, const void* x, void* y,
           Scratch& scratch) const;

 private:
  struct Kernels;
  explicit TileMatmul(std::unique_ptr<Kernels> kernels);
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_TILE_MATMUL_H_
