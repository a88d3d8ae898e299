#include "kernels/linear/panel_amx.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace steadystate {
namespace {

constexpr size_t kStepBytes = kPanelColumns * 4;
constexpr size_t kLine = 64;
// Rows of a tile, and steps that one instruction takes: a tile of weights has
// 16 steps of 16 columns.
constexpr size_t kTileRows = 16;
constexpr size_t kTileSteps = 16;
constexpr size_t kTileBytes = kTileSteps * kStepBytes;  // of a panel
// Steps of which rows in several groups meet a panel, before the next: what
// they read again is in the first cache, what comes next on its way to the
// second. 32 and 64 steps read as fast as memory allows, 128 a tenth slower.
constexpr size_t kGroupSteps = 64;
static_assert(kPanelSlab % kGroupSteps == 0);
// How far ahead a single group of rows, which reads a panel once, fetches.
// Twice as far reads 5 % slower.
constexpr size_t kAhead = 2048;

// Instructions by name, like those of panel_product.cc. The compilers know
// nothing of tiles, so none is in use but by these; `volatile` keeps the order.

template <int kTile>
void LoadTile(const std::byte* from, size_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(from), "r"(stride), "i"(kTile)
               : "memory");
}

template <int kTile>
void StoreTile(std::byte* to, size_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
               :
               : "r"(to), "r"(stride), "i"(kTile)
               : "memory");
}

template <int kTile>
void ZeroTile() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// tmm[kSum] += tmm[kX] tmm[kW], of pairs of bf16 or fours of bytes.
struct Bf16 {
  using Sum = float;
  template <int kSum, int kX, int kW>
  static void MultiplyAdd() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSum), "i"(kX), "i"(kW));
  }
};

struct Int8 {
  using Sum = int32_t;
  template <int kSum, int kX, int kW>
  static void MultiplyAdd() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                 :
                 : "i"(kSum), "i"(kX), "i"(kW));
  }
};

// The shapes of the tiles, as LDTILECFG reads them.
struct alignas(kLine) TileShapes {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void Set(int tile, size_t tile_rows) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = kLine;
  }
};
static_assert(sizeof(TileShapes) == kLine);

// Gives the tiles these shapes while it lives.
class ShapedTiles {
 public:
  explicit ShapedTiles(const TileShapes& shapes) {
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~ShapedTiles() { asm volatile("tilerelease"); }
  ShapedTiles(const ShapedTiles&) = delete;
  ShapedTiles& operator=(const ShapedTiles&) = delete;
};

// What is fetched to the second cache while tiles are multiplied, line by line.
// Passed by value, so that it stays in registers beside the instructions.
struct Fetches {
  const std::byte* next;
  const std::byte* end;

  template <size_t kLines>
  void Step() {
    if (next + kLines * kLine > end) return;
    for (size_t i = 0; i < kLines; ++i) {
      _mm_prefetch(next + i * kLine, _MM_HINT_T1);
    }
    next += kLines * kLine;
  }
};

// Steps of all rows that are added up without a pause.
struct Slab {
  size_t steps;        // a multiple of kTileSteps
  const std::byte* x;  // of the first row
  size_t x_stride;
  const std::byte* weights;
  std::byte* totals;  // of the first row
  bool begins;        // a chunk

  const std::byte* XOf(size_t row) const { return x + row * x_stride; }
  std::byte* TotalsOf(size_t row) const { return totals + row * kStepBytes; }
};

// The last steps of a row or of a panel, fewer than a tile's, with zeros behind
// them, which add nothing.
struct alignas(kLine) Tail {
  std::byte x[kMaxPanelRows][kLine];
  std::byte weights[kTileBytes];

  void Fill(const PanelProduct& product) {
    const size_t steps = product.steps % kTileSteps;
    const size_t whole = product.steps - steps;
    std::memset(x, 0, product.rows * kLine);
    for (size_t r = 0; r < product.rows; ++r) {
      std::memcpy(x[r], product.x + r * product.x_stride + 4 * whole,
                  4 * steps);
    }
    std::memcpy(weights, product.panel + whole * kStepBytes,
                steps * kStepBytes);
    std::memset(weights + steps * kStepBytes, 0,
                (kTileSteps - steps) * kStepBytes);
  }
};

// Tiles 0 to 3 are sums, two beside each other and two below them or, where
// there are no rows below, four beside each other: the third and the fourth
// are `next` bytes from the first and the second.
void BeginSums(bool begins, const std::byte* totals, size_t next) {
  if (begins) {
    ZeroTile<0>();
    ZeroTile<1>();
    ZeroTile<2>();
    ZeroTile<3>();
    return;
  }
  LoadTile<0>(totals, kStepBytes);
  LoadTile<1>(totals + kLine, kStepBytes);
  LoadTile<2>(totals + next, kStepBytes);
  LoadTile<3>(totals + next + kLine, kStepBytes);
}

void StoreSums(std::byte* totals, size_t next) {
  StoreTile<0>(totals, kStepBytes);
  StoreTile<1>(totals + kLine, kStepBytes);
  StoreTile<2>(totals + next, kStepBytes);
  StoreTile<3>(totals + next + kLine, kStepBytes);
}

// Loads a tile of weights, fetches, and adds up.
template <typename Op, int kSum, int kX, int kW, size_t kLines>
void LoadAndAdd(const std::byte* weights, Fetches& fetches) {
  LoadTile<kW>(weights, kStepBytes);
  fetches.Step<kLines>();
  Op::template MultiplyAdd<kSum, kX, kW>();
}

// Up to 16 rows by all 64 columns. x is in tile 4.
template <typename Op, size_t kLines>
Fetches RunOneTile(const Slab& slab, size_t row, Fetches fetches) {
  constexpr size_t kNext = 2 * kLine;
  const std::byte* x = slab.XOf(row);
  const std::byte* weights = slab.weights;
  BeginSums(slab.begins, slab.TotalsOf(row), kNext);
  for (size_t k = 0; k < slab.steps; k += kTileSteps) {
    LoadTile<4>(x, slab.x_stride);
    LoadAndAdd<Op, 0, 4, 5, kLines>(weights, fetches);
    LoadAndAdd<Op, 1, 4, 6, kLines>(weights + kLine, fetches);
    LoadAndAdd<Op, 2, 4, 7, kLines>(weights + 2 * kLine, fetches);
    LoadAndAdd<Op, 3, 4, 5, kLines>(weights + 3 * kLine, fetches);
    x += kLine;
    weights += kTileBytes;
  }
  StoreSums(slab.TotalsOf(row), kNext);
  return fetches;
}

// 17 to 32 rows by half the columns: a tile of weights meets two of x, and one
// of x two of weights. x is in tiles 4 and 5.
template <typename Op, size_t kLines>
Fetches RunTwoTiles(const Slab& slab, size_t row, size_t half,
                    Fetches fetches) {
  constexpr size_t kNext = kTileRows * kStepBytes;
  std::byte* const totals = slab.TotalsOf(row) + half * 2 * kLine;
  const std::byte* x = slab.XOf(row);
  const std::byte* x_below = slab.XOf(row + kTileRows);
  const std::byte* weights = slab.weights + half * 2 * kLine;
  BeginSums(slab.begins, totals, kNext);
  for (size_t k = 0; k < slab.steps; k += kTileSteps) {
    LoadTile<4>(x, slab.x_stride);
    LoadAndAdd<Op, 0, 4, 6, kLines>(weights, fetches);
    LoadAndAdd<Op, 1, 4, 7, kLines>(weights + kLine, fetches);
    LoadTile<5>(x_below, slab.x_stride);
    fetches.Step<kLines>();
    Op::template MultiplyAdd<2, 5, 6>();
    fetches.Step<kLines>();
    Op::template MultiplyAdd<3, 5, 7>();
    x += kLine;
    x_below += kLine;
    weights += kTileBytes;
  }
  StoreSums(totals, kNext);
  return fetches;
}

// Up to 32 rows, and the tiles' shapes for them.
struct Band {
  Band(size_t first_row, size_t row_count) : first(first_row), rows(row_count) {
    const size_t above = std::min(rows, kTileRows);
    for (const int tile : {0, 1, 4}) shapes.Set(tile, above);
    for (const int tile : {6, 7}) shapes.Set(tile, kTileSteps);
    const bool two = rows > kTileRows;
    for (const int tile : {2, 3}) shapes.Set(tile, two ? rows - above : above);
    shapes.Set(5, two ? rows - above : kTileSteps);
  }

  //   kLines  fetched for each tile of weights and 16 rows, if there are more
  //           than 16, else twice as many
  template <typename Op, size_t kLines>
  Fetches Run(const Slab& slab, const Fetches& fetches) const {
    if (rows <= kTileRows) {
      return RunOneTile<Op, 2 * kLines>(slab, first, fetches);
    }
    return RunTwoTiles<Op, kLines>(
        slab, first, 1, RunTwoTiles<Op, kLines>(slab, first, 0, fetches));
  }

  size_t first;
  size_t rows;
  TileShapes shapes;
};

// Lines of a panel that the multiplications of one band fetch, if it is alone.
constexpr size_t kLinesPerProduct = kTileBytes / kLine / 8;

// All rows, in one band or two. `RunSlab` adds a slab up.
template <typename Op>
class OneBand {
 public:
  explicit OneBand(size_t rows) : band_(0, rows), tiles_(band_.shapes) {}

  // A panel's steps in one go, if its rows are few; else see kGroupSteps.
  size_t SlabSteps() const {
    return band_.rows <= kTileRows ? SIZE_MAX : kGroupSteps;
  }
  void RunSlab(const Slab& slab, const std::byte* end) const {
    const size_t ahead =
        band_.rows <= kTileRows ? kAhead : slab.steps * kStepBytes;
    band_.Run<Op, kLinesPerProduct>(slab, {slab.weights + ahead, end});
  }

 private:
  const Band band_;
  const ShapedTiles tiles_;
};

template <typename Op>
class TwoBands {
 public:
  explicit TwoBands(size_t rows)
      : first_(0, (rows + 1) / 2), second_(first_.rows, rows / 2) {}

  size_t SlabSteps() const { return kGroupSteps; }
  void RunSlab(const Slab& slab, const std::byte* end) const {
    Fetches fetches{slab.weights + slab.steps * kStepBytes, end};
    for (const Band* band : {&first_, &second_}) {
      const ShapedTiles tiles(band->shapes);
      fetches = band->Run<Op, kLinesPerProduct / 2>(slab, fetches);
    }
  }

 private:
  const Band first_;
  const Band second_;
};

// The sums of a chunk that isn't the first, added to those before.
template <typename Op>
void AddChunk(const PanelProduct& product) {
  for (size_t i = 0; i < product.rows * kStepBytes; i += sizeof(float)) {
    typename Op::Sum sum;
    typename Op::Sum more;
    std::memcpy(&sum, product.sums + i, sizeof(sum));
    std::memcpy(&more, product.partial + i, sizeof(more));
    sum += more;
    std::memcpy(product.sums + i, &sum, sizeof(sum));
  }
}

template <typename Op, typename Bands>
void MultiplyChunk(const PanelProduct& product, const Bands& bands,
                   size_t begin, size_t steps) {
  Slab slab{};
  slab.x_stride = product.x_stride;
  slab.totals = begin == 0 ? product.sums : product.partial;
  const size_t tail_steps = steps % kTileSteps;
  const size_t end = begin + steps - tail_steps;
  for (size_t k = begin; k < end; k += slab.steps) {
    slab.steps = std::min(end - k, bands.SlabSteps());
    slab.x = product.x + 4 * k;
    slab.weights = product.panel + k * kStepBytes;
    slab.begins = k == begin;
    bands.RunSlab(slab, product.end);
  }
  if (tail_steps > 0) {
    Tail tail;
    tail.Fill(product);
    bands.RunSlab({.steps = kTileSteps,
                   .x = tail.x[0],
                   .x_stride = kLine,
                   .weights = tail.weights,
                   .totals = slab.totals,
                   .begins = end == begin},
                  nullptr);
  }
  if (begin > 0) AddChunk<Op>(product);
}

template <typename Op, typename Bands>
void MultiplyBy(const PanelProduct& product) {
  const Bands bands(product.rows);
  for (size_t k = 0; k < product.steps; k += product.chunk) {
    MultiplyChunk<Op>(product, bands, k,
                      std::min(product.chunk, product.steps - k));
  }
}

template <typename Op>
void MultiplyPanelByTiles(const PanelProduct& product) {
  if (product.rows <= 2 * kTileRows) {
    MultiplyBy<Op, OneBand<Op>>(product);
  } else {
    MultiplyBy<Op, TwoBands<Op>>(product);
  }
}

// What CPUID says in leaf 7.
constexpr unsigned kAmxBf16 = 1U << 22;
constexpr unsigned kAmxTile = 1U << 24;
constexpr unsigned kAmxInt8 = 1U << 25;

bool CpuHas(unsigned features) {
  unsigned eax;
  unsigned ebx;
  unsigned ecx;
  unsigned edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & features) == features;
}

// Linux gives tiles' registers to processes that ask for them.
bool KernelGivesTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace
}  // namespace steadystate

namespace steadystate {

MultiplyPanel FindAmxPanel(DType weights) {
  if (!__builtin_cpu_supports("avx512f")) return nullptr;
  static const bool has_tiles = CpuHas(kAmxTile) && KernelGivesTiles();
  if (!has_tiles) return nullptr;
  if (weights == DType::kBf16 && CpuHas(kAmxBf16)) {
    return &MultiplyPanelByTiles<Bf16>;
  }
  if (weights == DType::kI8 && CpuHas(kAmxInt8)) {
    return &MultiplyPanelByTiles<Int8>;
  }
  return nullptr;
}

}  // namespace steadystate

#else

namespace steadystate {

MultiplyPanel FindAmxPanel(DType) { return nullptr; }

}  // namespace steadystate

#endif  // defined(__x86_64__) && defined(__linux__)
