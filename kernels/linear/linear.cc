#include "kernels/linear/linear.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <new>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/die.h"
#include "kernels/linear/block_shape.h"
#include "kernels/linear/call_rows.h"
#include "kernels/linear/int4_matrix.h"
#include "kernels/linear/matrix_call.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/panel_plan.h"
#include "kernels/linear/simd_matrix.h"
#include "kernels/linear/simd_product.h"
#include "kernels/linear/tile_matmul.h"
#include "kernels/linear/weight_converter.h"
#include "kernels/openmp.h"

namespace steadystate {
namespace {

// Sums of more products of bytes could overflow 32 bits.
constexpr size_t kMaxInt8Inputs = size_t{1} << 16;

// Rows with which a task by panels is worth its while.
constexpr size_t kFewestBandRows = 8;

// One block of columns of a Linear.
struct Block {
  std::shared_ptr<const BlockShape> shape;
  size_t first_column = 0;
  TileMatmul::Weights weights;
};

std::string ImplementationOf(const BlockShape& shape) {
  const std::string& tiles = shape.matmul->implementation();
  const bool by_panels = shape.Panels(RowClass::kDecode).Takes(1);
  return by_panels ? absl::StrCat("panels+", tiles) : tiles;
}

bool AllWide(std::span<const WeightRows> parts) {
  return std::ranges::all_of(parts, &WeightRows::wide);
}

void CheckMemory(bool had) {
  if (!had) Die("no memory for a projection's rows");
}

}  // namespace

struct Linear::Packed {
  size_t in = 0;
  size_t out = 0;
  DType dtype = DType::kF32;
  std::vector<Block> blocks;  // at most two shapes: the last may be narrower
  std::shared_ptr<std::byte> weights;
  std::vector<float> bias;  // f32[out] or empty
  // In place of all above but for the bias:
  std::unique_ptr<Int4Matrix> int4;
  std::unique_ptr<SimdMatrix> simd;
  // With int8 weights:
  ByteRange range;               // of the rows of x
  std::vector<float> scales;     // f32[out]
  std::vector<int32_t> offsets;  // s32[out]

  // The two shapes, or one twice.
  std::array<const BlockShape*, 2> Shapes() const {
    return {blocks.front().shape.get(), blocks.back().shape.get()};
  }
};

struct LinearScratch::Buffers {
  struct Worker {
    AlignedBytes y;  // f32 or s32[tile rows, block width], or as panels want it
    TileMatmul::Scratch matmul;
  };

  void ReserveWorkers(size_t threads) {
    if (workers.size() < threads) workers.resize(threads);
  }
  // Readies the workers for `rows` rows, so that tasks do not allocate.
  void ReservePanels() {
    for (Worker& worker : workers) {
      CheckMemory(worker.y.Grow(kPanelScratchBytes));
    }
  }
  void Reserve(const BlockShape& shape, const TileSet& tiles, size_t rows) {
    ReserveTile(shape, tiles, TileFor(tiles.sizes, rows));
    ReserveTile(shape, tiles, TileFor(tiles.sizes, rows % tiles.sizes.back()));
  }

  void ReserveTile(const BlockShape& shape, const TileSet& tiles, size_t tile) {
    for (Worker& worker : workers) {
      CheckMemory(
          worker.y.Grow(tiles.sizes[tile] * shape.width * sizeof(float)));
      worker.matmul.Reserve(*shape.matmul, tiles.kernels[tile]);
    }
  }

  InputRows input;
  std::vector<Worker> workers;
  Int4Matrix::Scratch int4;
  SimdMatrix::Scratch simd;
};

namespace {

absl::Status NoMemoryFor(size_t in, size_t out) {
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory for a projection of ", in, " inputs and ", out, " outputs"));
}

// True if such weights are multiplied by plain vectors: oneDNN's own loops for
// AVX2 pack weights again in each call.
bool GoesBySimd(DType weights, const MatmulLibrary& library) {
  if (weights == DType::kBf16) return !library.native_bf16;
  if (weights == DType::kI8 && library.vnni) return false;
  return !library.avx512;
}

// What the tasks of one Run share.
struct Call {
  RowClass row_class;
  size_t rows;
  const InputRows& input;
  OutputRows output;
};

bool GoesByPanels(const Call& call, const Block& block) {
  return block.shape->Panels(call.row_class).Takes(call.rows);
}

// One of `bands` equal shares of the rows, times one block of columns.
//   next  the block that comes after it on this thread; or null
template <typename Worker>
void RunPanels(const Call& call, const Block& block, const Block* next,
               size_t band, size_t bands, Worker& worker) {
  const BlockShape& shape = *block.shape;
  const size_t first = band * call.rows / bands;
  const size_t rows = (band + 1) * call.rows / bands - first;
  PanelBlock panels = shape.PanelsOf(block.weights);
  if (next != nullptr && GoesByPanels(call, *next)) {
    panels.next = next->shape->PanelsOf(next->weights).weights;
  }
  MultiplyPanels(shape.Panels(call.row_class), panels, rows,
                 call.input.At(first), worker.y.data(),
                 [&](size_t row, size_t count, size_t column, size_t width,
                     const std::byte* sums) {
                   call.output.Store(first + row, count,
                                     block.first_column + column, width, sums,
                                     kPanelColumns);
                 });
}

// The same by tiles, of which each band has a share.
template <typename Worker>
void RunTiles(const Call& call, const Block& block, size_t band, size_t bands,
              Worker& worker) {
  const BlockShape& shape = *block.shape;
  const TileSet& set = shape.Tiles(call.row_class);
  const size_t tiles = PlanRows(set.sizes, call.rows).tiles;
  const size_t end = (band + 1) * tiles / bands;
  for (size_t tile = band * tiles / bands; tile < end; ++tile) {
    const size_t row = tile * set.sizes.back();
    const size_t left = call.rows - row;
    const size_t size = TileFor(set.sizes, left);
    shape.matmul->Run(set.kernels[size], block.weights, call.input.At(row),
                      worker.y.data(), worker.matmul);
    call.output.Store(row, std::min(left, set.sizes[size]), block.first_column,
                      shape.width, worker.y.data(), shape.width);
  }
}

// A task: a band of a block.
//   next  the task that comes behind it on this thread, or beyond the last
template <typename Worker>
void RunTask(const Call& call, std::span<const Block> blocks, size_t bands,
             size_t task, size_t next, Worker& worker) {
  const size_t at = task / bands;
  const size_t behind = next / bands;
  const Block& block = blocks[at];
  if (!GoesByPanels(call, block)) {
    RunTiles(call, block, task % bands, bands, worker);
    return;
  }
  const bool fetches = behind != at && behind < blocks.size();
  RunPanels(call, block, fetches ? &blocks[behind] : nullptr, task % bands,
            bands, worker);
}

}  // namespace

LinearScratch::LinearScratch() : buffers_(std::make_unique<Buffers>()) {}
LinearScratch::~LinearScratch() = default;
LinearScratch::LinearScratch(LinearScratch&&) noexcept = default;
LinearScratch& LinearScratch::operator=(LinearScratch&&) noexcept = default;

Linear::Linear(std::unique_ptr<Packed> packed) : packed_(std::move(packed)) {}
Linear::~Linear() = default;
size_t Linear::in() const { return packed_->in; }
size_t Linear::out() const { return packed_->out; }

void Linear::Run(size_t rows, const float* x, size_t x_stride, float* y,
                 size_t y_stride, ThreadPool& pool, LinearScratch& scratch,
                 RowClass row_class) const {
  if (rows == 0) return;
  LinearScratch::Buffers& buffers = *scratch.buffers_;
  const float* bias = packed_->bias.empty() ? nullptr : packed_->bias.data();
  const MatrixCall matrices{rows, x, x_stride, bias, y, y_stride};
  if (packed_->int4 != nullptr) {
    CheckMemory(packed_->int4->Run(matrices, pool, buffers.int4));
    return;
  }
  if (packed_->simd != nullptr) {
    CheckMemory(packed_->simd->Run(matrices, pool, buffers.simd));
    return;
  }
  buffers.ReserveWorkers(pool.size());
  InputRows::Request request{packed_->dtype, packed_->in, rows, x,
                             x_stride,       rows,        rows, packed_->range};
  size_t most_bands = 1;
  bool by_panels = false;
  bool by_tiles = false;
  for (const BlockShape* shape : packed_->Shapes()) {
    if (shape->Panels(row_class).Takes(rows)) {
      buffers.ReservePanels();
      most_bands = std::max(most_bands, rows / kFewestBandRows);
      by_panels = true;
      continue;
    }
    const TileSet& tiles = shape->Tiles(row_class);
    const RowPlan plan = PlanRows(tiles.sizes, rows);
    request.first_partial = std::min(request.first_partial, plan.whole);
    request.padded_rows = std::max(request.padded_rows, plan.padded);
    most_bands = std::max(most_bands, plan.tiles);
    buffers.Reserve(*shape, tiles, rows);
    by_tiles = true;
  }
  // Panels take rows in groups of their own, so all must lie in one place.
  if (by_panels && by_tiles) request.first_partial = 0;
  CheckMemory(buffers.input.Prepare(request, pool));

  const ByteScales scales{buffers.input.scales(), packed_->scales.data(),
                          packed_->offsets.data()};
  const Call call{
      row_class,
      rows,
      buffers.input,
      {bias, y, y_stride, packed_->dtype == DType::kI8 ? &scales : nullptr}};
  const size_t blocks = packed_->blocks.size();
  // Few blocks and many rows: the rows are shared among the threads too.
  const size_t bands = std::clamp<size_t>(2 * pool.size() / blocks, 1,
                                          pool.size() == 1 ? 1 : most_bands);
  pool.ParallelFor(blocks * bands,
                   [&](size_t task, size_t next, size_t worker) {
                     RunTask(call, std::span<const Block>(packed_->blocks),
                             bands, task, next, buffers.workers[worker]);
                   });
}

struct LinearFactory::Shared {
  explicit Shared(size_t threads) : pool(threads) {}

  DType dtype = DType::kF32;  // of weights without groups of 4 bits
  bool simd = false;          // plain vectors multiply these, else oneDNN does
  bool int4 = false;          // weights that are not wide have such groups
  LinearReport report;
  // Inputs and implementations that are in it, of those without oneDNN.
  std::set<std::pair<size_t, std::string>> reported;
  WeightArena arena;
  ThreadPool pool;  // packs
  std::map<std::pair<size_t, size_t>, std::shared_ptr<const BlockShape>> shapes;

  // The shape's kernels, made and tried when it is new.
  absl::StatusOr<std::shared_ptr<const BlockShape>> Shape(size_t in,
                                                          size_t width) {
    std::shared_ptr<const BlockShape>& shape = shapes[{in, width}];
    if (shape != nullptr) return shape;
    auto made = MakeBlockShape(dtype, in, width);
    if (!made.ok()) return made.status();
    shape = *std::move(made);
    report.shapes.push_back({in, width, shape->Tiles(RowClass::kDecode).sizes,
                             shape->Tiles(RowClass::kPrefill).sizes,
                             ImplementationOf(*shape)});
    return shape;
  }

  absl::StatusOr<std::unique_ptr<Linear>> Make(
      size_t in, size_t out, std::span<const WeightRows> parts,
      std::span<const float> bias);
  // Without oneDNN: in groups of 4 bits, or for plain vectors.
  absl::Status PackInt4(std::span<const WeightRows> parts,
                        Linear::Packed& packed);
  absl::Status PackSimd(std::span<const WeightRows> parts,
                        Linear::Packed& packed);
  void Report(size_t in, size_t columns, size_t rows, std::string name);
  // Cuts the columns into blocks of known shapes.
  absl::Status Cut(Linear::Packed& packed);
  // Fills the blocks' memory.
  absl::Status Pack(std::span<const WeightRows> parts, Linear::Packed& packed);
};

absl::Status LinearFactory::Shared::Cut(Linear::Packed& packed) {
  const size_t width = ColumnsPerBlock(packed.in, packed.out, dtype);
  for (size_t first = 0; first < packed.out; first += width) {
    auto shape = Shape(packed.in, std::min(width, packed.out - first));
    if (!shape.ok()) return shape.status();
    packed.blocks.push_back({*std::move(shape), first, {}});
  }
  if (dtype != DType::kI8) return absl::OkStatus();
  // Sums that are exact up to one limit are so below.
  const auto [most, last] = packed.Shapes();
  packed.range.limit = std::min(most->limit, last->limit);
  packed.range.zero = packed.range.limit + 1;
  packed.scales.resize(packed.out);
  packed.offsets.resize(packed.out);
  return absl::OkStatus();
}

absl::Status LinearFactory::Shared::Pack(std::span<const WeightRows> parts,
                                         Linear::Packed& packed) {
  size_t bytes = 0;
  for (const Block& block : packed.blocks) {
    bytes += RoundUpToLine(block.shape->matmul->packed_bytes());
  }
  packed.weights = arena.Allocate(bytes);
  if (packed.weights == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the ", bytes, " bytes of a projection of ",
                     packed.in, " inputs and ", packed.out, " outputs"));
  }
  std::byte* place = packed.weights.get();
  std::vector<std::byte*> places;
  for (const Block& block : packed.blocks) {
    places.push_back(place);
    place += RoundUpToLine(block.shape->matmul->packed_bytes());
  }
  std::vector<WeightConverter> converters = WeightConverter::Team(
      pool.size(), dtype, packed.in, parts, packed.blocks.front().shape->width);
  std::vector<absl::Status> failures(pool.size());
  pool.ParallelFor(packed.blocks.size(), [&](size_t i, size_t worker) {
    Block& block = packed.blocks[i];
    const void* const rows = converters[worker].Convert(
        block.first_column, block.shape->width,
        {packed.scales.data() + block.first_column,
         packed.offsets.data() + block.first_column});
    auto weights = block.shape->matmul->Pack(rows, places[i]);
    if (weights.ok()) {
      block.weights = *std::move(weights);
    } else {
      failures[worker] = weights.status();
    }
  });
  for (const absl::Status& failure : failures) {
    if (!failure.ok()) return failure;
  }
  for (int32_t& offset : packed.offsets) offset *= packed.range.zero;
  return absl::OkStatus();
}

absl::Status LinearFactory::Shared::PackInt4(std::span<const WeightRows> parts,
                                             Linear::Packed& packed) {
  packed.int4 = Int4Matrix::Pack(packed.in, parts, arena, pool);
  if (packed.int4 == nullptr) return NoMemoryFor(packed.in, packed.out);
  Report(packed.in, kInt4BlockColumns, kInt4BlockRows, "int4_groups");
  return absl::OkStatus();
}

absl::Status LinearFactory::Shared::PackSimd(std::span<const WeightRows> parts,
                                             Linear::Packed& packed) {
  packed.simd = SimdMatrix::Pack(dtype, packed.in, parts, arena, pool);
  if (packed.simd == nullptr) return NoMemoryFor(packed.in, packed.out);
  Report(packed.in, kSimdBlockColumns, kSimdBlockRows, "simd_panels");
  return absl::OkStatus();
}

void LinearFactory::Shared::Report(size_t in, size_t columns, size_t rows,
                                   std::string name) {
  if (!reported.emplace(in, name).second) return;
  report.shapes.push_back({in, columns, {rows}, {rows}, std::move(name)});
}

absl::StatusOr<std::unique_ptr<Linear>> LinearFactory::Shared::Make(
    size_t in, size_t out, std::span<const WeightRows> parts,
    std::span<const float> bias) {
  auto packed = std::make_unique<Linear::Packed>();
  packed->in = in;
  packed->out = out;
  packed->dtype = dtype;
  packed->bias.assign(bias.begin(), bias.end());
  absl::Status status;
  if (int4 && !AllWide(parts)) {
    status = PackInt4(parts, *packed);
  } else if (simd) {
    status = PackSimd(parts, *packed);
  } else {
    status = Cut(*packed);
    if (status.ok()) status = Pack(parts, *packed);
  }
  if (!status.ok()) return status;
  return std::unique_ptr<Linear>(new Linear(std::move(packed)));
}

LinearFactory::LinearFactory(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)) {}
LinearFactory::~LinearFactory() = default;

absl::StatusOr<std::unique_ptr<LinearFactory>> LinearFactory::Create(
    DType weights, size_t threads) {
  if (weights == DType::kF16) {
    return absl::InvalidArgumentError(
        "projections compute in f32, bf16, int8 or int4");
  }
  MatmulLibrary library = DescribeMatmulLibrary();
  auto shared = std::make_shared<Shared>(threads);
  shared->int4 = weights == DType::kI4;
  shared->dtype = shared->int4 ? DType::kI8 : weights;
  shared->simd = GoesBySimd(shared->dtype, library);
  shared->report.weight_dtype = Name(weights);
  shared->report.isa = std::move(library.isa);
  shared->report.onednn_version = std::move(library.version);
  return std::unique_ptr<LinearFactory>(new LinearFactory(std::move(shared)));
}

absl::StatusOr<std::unique_ptr<Linear>> LinearFactory::Make(
    size_t in, std::span<const WeightRows> parts, std::span<const float> bias) {
  const absl::StatusOr<size_t> out = CountRows(in, parts);
  if (!out.ok()) return out.status();
  if (!bias.empty() && bias.size() != *out) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a bias of ", bias.size(), " elements for ", *out, " outputs"));
  }
  const bool bytes =
      shared_->dtype == DType::kI8 && !(shared_->int4 && !AllWide(parts));
  if (bytes && in > kMaxInt8Inputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a projection of ", in, " inputs; with int8 weights at most ",
        kMaxInt8Inputs, " are possible: use f32 or bf16 weights"));
  }
  const OneOpenMpThread one_thread;
  try {
    return shared_->Make(in, *out, parts, bias);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a projection");
  }
}

const LinearReport& LinearFactory::report() const { return shared_->report; }

}  // namespace steadystate
