#include "kernels/linear/linear.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/linear/aligned_bytes.h"
#include "kernels/linear/column_blocks.h"
#include "kernels/linear/input_rows.h"
#include "kernels/linear/isa_name.h"
#include "kernels/linear/one_openmp_thread.h"
#include "kernels/linear/output_rows.h"
#include "kernels/linear/row_tiles.h"
#include "kernels/linear/tile_trials.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace steadystate {
namespace {

using dnnl::memory;

// Rows of the tiles that are tried on each shape.
constexpr size_t kTileSizes[] = {1, 2, 4, 8, 16, 24, 32, 48, 64};

// Of the size that decides the layout of the packed weights.
constexpr size_t kLayoutTile = 16;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "steadystate: a projection failed: %s\n", what.c_str());
  std::abort();
}

memory::dim Dim(size_t n) { return static_cast<memory::dim>(n); }

memory::data_type TypeOf(DType dtype) {
  return dtype == DType::kBf16 ? memory::data_type::bf16
                               : memory::data_type::f32;
}

// Calls make() and turns what it throws into a Status.
template <typename Make>
auto WithoutExceptions(const Make& make) -> decltype(make()) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    const std::string message = absl::StrCat("oneDNN: ", error.what());
    if (error.status == dnnl_out_of_memory) {
      return absl::ResourceExhaustedError(message);
    }
    return absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no memory for a projection");
  }
}

std::string VersionName() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

// One for the process: streams and primitives of different engines do not mix.
const dnnl::engine& Cpu() {
  static const dnnl::engine& cpu =
      *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::matmul::primitive_desc MatmulOf(const memory::desc& x,
                                      const memory::desc& weights,
                                      const memory::desc& y) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return {Cpu(), x, weights, y, attr};
#else
  return {dnnl::matmul::desc(x, weights, y), attr, Cpu()};
#endif
}

// A contiguous row-major matrix.
memory::desc Matrix(size_t rows, size_t columns, memory::data_type type) {
  return {{Dim(rows), Dim(columns)}, type, memory::dims{Dim(columns), 1}};
}

// Multiplies a tile of `rows` rows by one block of columns.
struct TileKernel {
  uint64_t id = 0;  // unique in the process
  size_t rows = 0;
  memory::desc x;           // [rows, in]
  memory::desc y;           // f32[rows, width]
  memory::desc scratchpad;  // what oneDNN works in
  dnnl::matmul matmul;
};

// The memory objects that one thread hands to one kernel, made once because
// making them allocates.
struct KernelArguments {
  explicit KernelArguments(const TileKernel& kernel)
      : x(kernel.x, Cpu(), nullptr),
        y(kernel.y, Cpu(), nullptr),
        scratchpad(kernel.scratchpad, Cpu(), nullptr) {}
  memory x;
  memory y;
  memory scratchpad;
};

void Check(dnnl_status_t status) {
  if (status != dnnl_success) Die(absl::StrCat("oneDNN status ", status));
}

// The C interface, for the C++ one throws, and builds a hash map each time.
void Execute(const TileKernel& kernel, const memory& weights,
             const dnnl::stream& stream, const KernelArguments& arguments,
             const void* x, float* y, void* scratchpad) {
  // oneDNN only reads x.
  Check(dnnl_memory_set_data_handle(arguments.x.get(), const_cast<void*>(x)));
  Check(dnnl_memory_set_data_handle(arguments.y.get(), y));
  Check(dnnl_memory_set_data_handle(arguments.scratchpad.get(), scratchpad));
  const std::array<dnnl_exec_arg_t, 4> list = {{
      {DNNL_ARG_SRC, arguments.x.get()},
      {DNNL_ARG_WEIGHTS, weights.get()},
      {DNNL_ARG_DST, arguments.y.get()},
      {DNNL_ARG_SCRATCHPAD, arguments.scratchpad.get()},
  }};
  Check(dnnl_primitive_execute(kernel.matmul.get(), stream.get(),
                               static_cast<int>(list.size()), list.data()));
  Check(dnnl_stream_wait(stream.get()));
}

// What all blocks of one shape share, in this Linear and in others.
struct BlockShape {
  size_t in = 0;
  size_t width = 0;
  memory::desc stored;             // [in, width], a view of rows [width, in]
  memory::desc packed;             // as oneDNN wants them
  dnnl::reorder packer;            // stored -> packed
  std::vector<TileKernel> tiles;   // ascending, bit-equal to each other
  std::vector<size_t> tile_sizes;  // theirs
  std::string implementation;
};

TileKernel MakeTileKernel(DType dtype, size_t rows, const BlockShape& shape) {
  static std::atomic<uint64_t> next_id{0};
  TileKernel kernel;
  kernel.id = next_id.fetch_add(1, std::memory_order_relaxed);
  kernel.rows = rows;
  kernel.x = Matrix(rows, shape.in, TypeOf(dtype));
  kernel.y = Matrix(rows, shape.width, memory::data_type::f32);
  const auto desc = MatmulOf(kernel.x, shape.packed, kernel.y);
  kernel.scratchpad = desc.scratchpad_desc();
  kernel.matmul = dnnl::matmul(desc);
  return kernel;
}

AlignedBytes AllocateOrThrow(size_t bytes) {
  AlignedBytes result;
  if (!result.Allocate(std::max<size_t>(bytes, 1))) throw std::bad_alloc();
  return result;
}

// Keeps of shape.tiles those that may be mixed freely.
void KeepEqualTiles(DType dtype, BlockShape& shape) {
  const dnnl::stream stream(Cpu());
  const AlignedBytes values = AllocateOrThrow(shape.stored.get_size());
  const AlignedBytes place = AllocateOrThrow(shape.packed.get_size());
  TrialNumbers().Fill(shape.in * shape.width, dtype, values.data());
  memory stored(shape.stored, Cpu(), values.data());
  memory weights(shape.packed, Cpu(), place.data());
  shape.packer.execute(stream, stored, weights);

  const TileTrials trials(shape.in, shape.width, dtype);
  std::vector<TileTrial> results;
  for (const TileKernel& kernel : shape.tiles) {
    const KernelArguments arguments(kernel);
    const AlignedBytes scratchpad =
        AllocateOrThrow(kernel.scratchpad.get_size());
    results.push_back(trials.Try(kernel.rows, [&](const void* x, float* y) {
      Execute(kernel, weights, stream, arguments, x, y, scratchpad.data());
    }));
  }
  shape.tile_sizes = ChooseRowTiles(results);
  std::erase_if(shape.tiles, [&shape](const TileKernel& kernel) {
    return !std::binary_search(shape.tile_sizes.begin(), shape.tile_sizes.end(),
                               kernel.rows);
  });
}

// Throws what oneDNN throws.
std::shared_ptr<const BlockShape> MakeBlockShape(DType dtype, size_t in,
                                                 size_t width) {
  auto shape = std::make_shared<BlockShape>();
  shape->in = in;
  shape->width = width;
  const memory::dims dims = {Dim(in), Dim(width)};
  shape->stored = memory::desc(dims, TypeOf(dtype), memory::dims{1, Dim(in)});
  // One layout for all tile sizes, or the weights would be needed twice.
  shape->packed = memory::desc(dims, TypeOf(dtype), memory::format_tag::any);
  const auto desc =
      MatmulOf(Matrix(kLayoutTile, in, TypeOf(dtype)), shape->packed,
               Matrix(kLayoutTile, width, memory::data_type::f32));
  shape->packed = desc.weights_desc();
  shape->implementation = desc.impl_info_str();
  shape->packer = dnnl::reorder(dnnl::reorder::primitive_desc(
      Cpu(), shape->stored, Cpu(), shape->packed));
  for (const size_t rows : kTileSizes) {
    try {
      shape->tiles.push_back(MakeTileKernel(dtype, rows, *shape));
    } catch (const dnnl::error& error) {
      // A size that cannot read this layout is one candidate less.
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  KeepEqualTiles(dtype, *shape);
  return shape;
}

// One block of columns of a Linear.
struct Block {
  std::shared_ptr<const BlockShape> shape;
  size_t first_column = 0;
  memory weights;
};

size_t RoundUpToLine(size_t bytes) {
  constexpr size_t kLine = AlignedBytes::kAlignment;
  return (bytes + kLine - 1) / kLine * kLine;
}

// Converts and packs the rows of one block after another.
class BlockPacker {
 public:
  BlockPacker(DType dtype, size_t in, std::span<const WeightRows> parts)
      : dtype_(dtype), in_(in), parts_(parts), stream_(Cpu()) {}

  void Pack(Block& block) {
    const size_t width = block.shape->width;
    values_.resize(width * in_);
    GatherRows(in_, parts_, block.first_column, width, values_.data());
    void* stored = values_.data();
    if (dtype_ == DType::kBf16) {
      rounded_.resize(values_.size());
      ConvertToBf16(values_.size(), values_.data(), rounded_.data());
      stored = rounded_.data();
    }
    memory from(block.shape->stored, Cpu(), stored);
    block.shape->packer.execute(stream_, from, block.weights);
    stream_.wait();
  }

 private:
  const DType dtype_;
  const size_t in_;
  const std::span<const WeightRows> parts_;
  dnnl::stream stream_;
  std::vector<float> values_;
  std::vector<uint16_t> rounded_;
};

}  // namespace

struct Linear::Packed {
  size_t in = 0;
  size_t out = 0;
  DType dtype = DType::kF32;
  std::vector<Block> blocks;  // at most two shapes: the last may be narrower
  AlignedBytes weights;
  std::vector<float> bias;  // f32[out] or empty
};

struct LinearScratch::Buffers {
  struct Worker {
    dnnl::stream stream{Cpu()};
    AlignedBytes y;  // f32[tile rows, block width]
    AlignedBytes scratchpad;
    std::unordered_map<uint64_t, KernelArguments> arguments;  // by kernel
  };

  // Readies `threads` workers for `rows` rows, so that tasks do not allocate.
  void Reserve(const BlockShape& shape, size_t rows, size_t threads) {
    const std::vector<size_t>& sizes = shape.tile_sizes;
    try {
      if (workers.size() < threads) workers.resize(threads);
      Reserve(shape.tiles[TileFor(sizes, rows)]);
      Reserve(shape.tiles[TileFor(sizes, rows % sizes.back())]);
    } catch (const std::exception& error) {
      Die(error.what());
    }
  }

  void Reserve(const TileKernel& kernel) {
    const size_t y_bytes = kernel.y.get_size();
    const size_t scratchpad_bytes = kernel.scratchpad.get_size();
    for (Worker& worker : workers) {
      if (worker.y.size() < y_bytes) worker.y = AllocateOrThrow(y_bytes);
      if (worker.scratchpad.size() < scratchpad_bytes) {
        worker.scratchpad = AllocateOrThrow(scratchpad_bytes);
      }
      worker.arguments.try_emplace(kernel.id, kernel);
    }
  }

  InputRows input;
  std::vector<Worker> workers;
};

namespace {

// What the tasks of one Run share.
struct Call {
  size_t rows;
  const InputRows& input;
  OutputRows output;
};

// The tiles of one of `bands` equal shares of the rows, times one block of
// columns.
template <typename Worker>
void RunBlock(const Call& call, const Block& block, size_t band, size_t bands,
              Worker& worker) {
  const std::vector<size_t>& sizes = block.shape->tile_sizes;
  const size_t tiles = PlanRows(sizes, call.rows).tiles;
  const size_t end = (band + 1) * tiles / bands;
  float* y = reinterpret_cast<float*>(worker.y.data());
  for (size_t tile = band * tiles / bands; tile < end; ++tile) {
    const size_t row = tile * sizes.back();
    const size_t left = call.rows - row;
    const TileKernel& kernel = block.shape->tiles[TileFor(sizes, left)];
    Execute(kernel, block.weights, worker.stream,
            worker.arguments.find(kernel.id)->second, call.input.At(row), y,
            worker.scratchpad.data());
    call.output.Store(row, std::min(left, kernel.rows), block.first_column,
                      block.shape->width, y);
  }
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
                 RowClass /*row_class*/) const {
  if (rows == 0) return;
  LinearScratch::Buffers& buffers = *scratch.buffers_;
  InputRows::Request request{packed_->dtype, packed_->in, rows, x,
                             x_stride,       rows,        rows};
  size_t most_tiles = 0;
  for (const Block* block :
       {&packed_->blocks.front(), &packed_->blocks.back()}) {
    const BlockShape& shape = *block->shape;
    const RowPlan plan = PlanRows(shape.tile_sizes, rows);
    request.first_partial = std::min(request.first_partial, plan.whole);
    request.padded_rows = std::max(request.padded_rows, plan.padded);
    most_tiles = std::max(most_tiles, plan.tiles);
    buffers.Reserve(shape, rows, pool.size());
  }
  if (!buffers.input.Prepare(request, pool)) Die("no memory for its input");

  const float* bias = packed_->bias.empty() ? nullptr : packed_->bias.data();
  const Call call{rows, buffers.input, {bias, y, y_stride}};
  const size_t blocks = packed_->blocks.size();
  // Few blocks and many rows: the rows are shared among the threads too.
  const size_t bands = std::clamp<size_t>(2 * pool.size() / blocks, 1,
                                          pool.size() == 1 ? 1 : most_tiles);
  pool.ParallelFor(blocks * bands, [&](size_t task, size_t worker) {
    RunBlock(call, packed_->blocks[task / bands], task % bands, bands,
             buffers.workers[worker]);
  });
}

struct LinearFactory::Shared {
  DType dtype = DType::kF32;
  LinearReport report;
  std::map<std::pair<size_t, size_t>, std::shared_ptr<const BlockShape>> shapes;

  // The shape's kernels, made and tried when it is new.
  absl::StatusOr<std::shared_ptr<const BlockShape>> Shape(size_t in,
                                                          size_t width) {
    std::shared_ptr<const BlockShape>& shape = shapes[{in, width}];
    if (shape != nullptr) return shape;
    auto made = MakeBlockShape(dtype, in, width);
    if (made->tiles.empty()) {
      return absl::InternalError(
          absl::StrCat("oneDNN has no repeatable multiplication of ", in,
                       " inputs by ", width, " outputs"));
    }
    report.shapes.push_back(
        {in, width, made->tile_sizes, made->implementation});
    shape = std::move(made);
    return shape;
  }

  absl::StatusOr<std::unique_ptr<Linear>> Make(
      size_t in, size_t out, std::span<const WeightRows> parts,
      std::span<const float> bias);
};

absl::StatusOr<std::unique_ptr<Linear>> LinearFactory::Shared::Make(
    size_t in, size_t out, std::span<const WeightRows> parts,
    std::span<const float> bias) {
  const size_t width = ColumnsPerBlock(in, out, dtype);
  auto packed = std::make_unique<Linear::Packed>();
  packed->in = in;
  packed->out = out;
  packed->dtype = dtype;
  packed->bias.assign(bias.begin(), bias.end());
  size_t bytes = 0;
  for (size_t first = 0; first < out; first += width) {
    auto shape = Shape(in, std::min(width, out - first));
    if (!shape.ok()) return shape.status();
    bytes += RoundUpToLine((*shape)->packed.get_size());
    packed->blocks.push_back({*std::move(shape), first, memory()});
  }
  if (!packed->weights.Allocate(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the ", bytes, " bytes of a projection of ",
                     in, " inputs and ", out, " outputs"));
  }
  std::byte* place = packed->weights.data();
  BlockPacker packer(dtype, in, parts);
  for (Block& block : packed->blocks) {
    block.weights = memory(block.shape->packed, Cpu(), place);
    packer.Pack(block);
    place += RoundUpToLine(block.shape->packed.get_size());
  }
  return std::unique_ptr<Linear>(new Linear(std::move(packed)));
}

LinearFactory::LinearFactory(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)) {}
LinearFactory::~LinearFactory() = default;

bool LinearFactory::HasNativeBf16() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto bf16 = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (isa & bf16) == bf16;
}

absl::StatusOr<std::unique_ptr<LinearFactory>> LinearFactory::Create(
    DType weights) {
  if (weights == DType::kF16) {
    return absl::InvalidArgumentError("projections compute in f32 or bf16");
  }
  const std::string isa = IsaName(dnnl_get_effective_cpu_isa());
  if (weights == DType::kBf16 && !HasNativeBf16()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "bf16 weights need a CPU with AVX512_BF16 or AMX, but oneDNN may use ",
        isa,
        " here (the CPU's own, or what ONEDNN_MAX_CPU_ISA allows); use "
        "f32 weights or another machine"));
  }
  return WithoutExceptions(
      [&]() -> absl::StatusOr<std::unique_ptr<LinearFactory>> {
        Cpu();
        auto shared = std::make_shared<Shared>();
        shared->dtype = weights;
        shared->report.weight_dtype = Name(weights);
        shared->report.isa = isa;
        shared->report.onednn_version = VersionName();
        return std::unique_ptr<LinearFactory>(
            new LinearFactory(std::move(shared)));
      });
}

absl::StatusOr<std::unique_ptr<Linear>> LinearFactory::Make(
    size_t in, std::span<const WeightRows> parts, std::span<const float> bias) {
  const absl::StatusOr<size_t> out = CountRows(in, parts);
  if (!out.ok()) return out.status();
  if (!bias.empty() && bias.size() != *out) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a bias of ", bias.size(), " elements for ", *out, " outputs"));
  }
  const OneOpenMpThread one_thread;
  return WithoutExceptions(
      [&] { return shared_->Make(in, *out, parts, bias); });
}

const LinearReport& LinearFactory::report() const { return shared_->report; }

}  // namespace steadystate
