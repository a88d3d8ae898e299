#include "kernels/linear/tile_matmul.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/die.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/panel_product.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace steadystate {
namespace {

using dnnl::memory;

// Of the size that decides the layout of the packed weights.
constexpr size_t kLayoutTile = 16;

void Check(dnnl_status_t status) {
  if (status != dnnl_success) {
    Die(absl::StrCat("a projection failed: oneDNN status ", status));
  }
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

// One for the process: streams and primitives of different engines do not mix.
const dnnl::engine& Cpu() {
  static const dnnl::engine& cpu =
      *new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return cpu;
}

struct Types {
  memory::data_type x;
  memory::data_type weights;
  memory::data_type y;
};

Types TypesOf(DType weights) {
  using T = memory::data_type;
  if (weights == DType::kBf16) return {T::bf16, T::bf16, T::f32};
  if (weights == DType::kI8) return {T::u8, T::s8, T::s32};
  return {T::f32, T::f32, T::f32};
}

memory::dim Dim(size_t n) { return static_cast<memory::dim>(n); }

// A row-major matrix, its rows `stride` elements apart.
memory::desc Matrix(size_t rows, size_t columns, size_t stride,
                    memory::data_type type) {
  return {{Dim(rows), Dim(columns)}, type, memory::dims{Dim(stride), 1}};
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

// Panels of 64 columns, four bytes of a column together, inputs padded with
// zeros to 16 such groups.
memory::format_tag PanelTag(memory::data_type weights) {
  if (weights == memory::data_type::bf16) {
    return memory::format_tag::BA16a64b2a;
  }
  if (weights == memory::data_type::s8) return memory::format_tag::BA16a64b4a;
  return memory::format_tag::BA16a64b;
}

// Multiplies a tile of one size.
struct Kernel {
  uint64_t id = 0;          // unique in the process
  memory::desc x;           // [rows, in]
  memory::desc y;           // [rows, width]
  memory::desc scratchpad;  // what oneDNN works in
  dnnl::matmul matmul;
};

// A tile of X.
memory::desc TileOf(DType weights, size_t rows, size_t in) {
  return Matrix(rows, in, RowBytes(weights, in) / SizeOf(weights),
                TypesOf(weights).x);
}

Kernel MakeKernel(DType weights, size_t rows, size_t in, size_t width,
                  const memory::desc& packed) {
  static std::atomic<uint64_t> next_id{0};
  Kernel kernel;
  kernel.id = next_id.fetch_add(1, std::memory_order_relaxed);
  kernel.x = TileOf(weights, rows, in);
  kernel.y = Matrix(rows, width, width, TypesOf(weights).y);
  const auto desc = MatmulOf(kernel.x, packed, kernel.y);
  kernel.scratchpad = desc.scratchpad_desc();
  kernel.matmul = dnnl::matmul(desc);
  return kernel;
}

// The memory objects that one thread hands to one kernel, made once because
// making them allocates.
struct KernelArguments {
  explicit KernelArguments(const Kernel& kernel)
      : x(kernel.x, Cpu(), nullptr),
        y(kernel.y, Cpu(), nullptr),
        scratchpad(kernel.scratchpad, Cpu(), nullptr) {}
  memory x;
  memory y;
  memory scratchpad;
};

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

struct TileMatmul::Kernels {
  memory::desc stored;   // [in, width], a view of rows [width, in]
  memory::desc packed;   // as oneDNN wants them
  dnnl::reorder packer;  // stored -> packed
  memory::desc packer_scratchpad;
  std::vector<Kernel> all;  // by size
  std::vector<size_t> sizes;
  std::string implementation;
  std::optional<size_t> panel_bytes;
};

struct TileMatmul::Weights::Memory {
  memory packed;
};

struct TileMatmul::Scratch::Memory {
  dnnl::stream stream{Cpu()};
  AlignedBytes scratchpad;
  std::unordered_map<uint64_t, KernelArguments> arguments;  // by kernel
};

MatmulLibrary DescribeMatmulLibrary() {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto has = [isa](dnnl_cpu_isa_t asked) {
    return (isa & static_cast<unsigned>(asked)) == asked;
  };
  const dnnl_version_t* version = dnnl_version();
  return {
      .isa = IsaName(static_cast<int>(isa)),
      .version = absl::StrCat(version->major, ".", version->minor, ".",
                              version->patch),
      .avx512 = has(dnnl_cpu_isa_avx512_core),
      .vnni = has(dnnl_cpu_isa_avx512_core_vnni) || has(dnnl_cpu_isa_avx2_vnni),
      .native_bf16 = has(dnnl_cpu_isa_avx512_core_bf16),
      .amx = has(dnnl_cpu_isa_avx512_core_amx),
  };
}

absl::StatusOr<std::unique_ptr<TileMatmul>> TileMatmul::Create(
    DType weights, size_t in, size_t width, std::span<const size_t> sizes) {
  using Result = absl::StatusOr<std::unique_ptr<TileMatmul>>;
  return WithoutExceptions([&]() -> Result {
    const Types types = TypesOf(weights);
    auto kernels = std::make_unique<Kernels>();
    const memory::dims dims = {Dim(in), Dim(width)};
    kernels->stored =
        memory::desc(dims, types.weights, memory::dims{1, Dim(in)});
    // One layout for all tile sizes, or the weights would be needed twice.
    const auto desc =
        MatmulOf(TileOf(weights, kLayoutTile, in),
                 memory::desc(dims, types.weights, memory::format_tag::any),
                 Matrix(kLayoutTile, width, width, types.y));
    kernels->packed = desc.weights_desc();
    kernels->implementation = desc.impl_info_str();
    if (kernels->packed ==
        memory::desc(dims, types.weights, PanelTag(types.weights))) {
      kernels->panel_bytes = kernels->packed.get_size() / PanelsFor(width);
    }
    // Of a scratchpad that oneDNN keeps itself there is one for each thread,
    // that of the thread which makes the primitive: it would run nowhere else.
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc packer(Cpu(), kernels->stored, Cpu(),
                                               kernels->packed, attributes);
    kernels->packer = dnnl::reorder(packer);
    kernels->packer_scratchpad = packer.scratchpad_desc();
    for (const size_t rows : sizes) {
      try {
        kernels->all.push_back(
            MakeKernel(weights, rows, in, width, kernels->packed));
        kernels->sizes.push_back(rows);
      } catch (const dnnl::error& error) {
        // A size that cannot read this layout is one candidate less.
        if (error.status != dnnl_unimplemented) throw;
      }
    }
    return std::unique_ptr<TileMatmul>(new TileMatmul(std::move(kernels)));
  });
}

TileMatmul::TileMatmul(std::unique_ptr<Kernels> kernels)
    : kernels_(std::move(kernels)) {}
TileMatmul::~TileMatmul() = default;

const std::vector<size_t>& TileMatmul::sizes() const { return kernels_->sizes; }

size_t TileMatmul::packed_bytes() const { return kernels_->packed.get_size(); }

const std::string& TileMatmul::implementation() const {
  return kernels_->implementation;
}

std::optional<size_t> TileMatmul::panel_bytes() const {
  return kernels_->panel_bytes;
}

TileMatmul::Weights::Weights() = default;
TileMatmul::Weights::~Weights() = default;
TileMatmul::Weights::Weights(Weights&&) noexcept = default;
TileMatmul::Weights& TileMatmul::Weights::operator=(Weights&&) noexcept =
    default;

const std::byte* TileMatmul::Weights::data() const {
  return static_cast<const std::byte*>(memory_->packed.get_data_handle());
}

absl::StatusOr<TileMatmul::Weights> TileMatmul::Pack(const void* rows,
                                                     void* place) const {
  return WithoutExceptions([&]() -> absl::StatusOr<Weights> {
    dnnl::stream stream(Cpu());
    // oneDNN only reads the rows.
    memory from(kernels_->stored, Cpu(), const_cast<void*>(rows));
    Weights weights;
    weights.memory_ = std::make_unique<Weights::Memory>(
        Weights::Memory{memory(kernels_->packed, Cpu(), place)});
    memory scratchpad(kernels_->packer_scratchpad, Cpu());
    kernels_->packer.execute(stream, {{DNNL_ARG_FROM, from},
                                      {DNNL_ARG_TO, weights.memory_->packed},
                                      {DNNL_ARG_SCRATCHPAD, scratchpad}});
    stream.wait();
    return weights;
  });
}

TileMatmul::Scratch::Scratch() : memory_(std::make_unique<Memory>()) {}
TileMatmul::Scratch::~Scratch() = default;
TileMatmul::Scratch::Scratch(Scratch&&) noexcept = default;
TileMatmul::Scratch& TileMatmul::Scratch::operator=(Scratch&&) noexcept =
    default;

void TileMatmul::Scratch::Reserve(const TileMatmul& matmul, size_t size) {
  const Kernel& kernel = matmul.kernels_->all[size];
  try {
    const size_t bytes = std::max<size_t>(kernel.scratchpad.get_size(), 1);
    if (memory_->scratchpad.size() < bytes &&
        !memory_->scratchpad.Allocate(bytes)) {
      throw std::bad_alloc();
    }
    memory_->arguments.try_emplace(kernel.id, kernel);
  } catch (const std::exception& error) {
    Die(absl::StrCat("a projection failed: ", error.what()));
  }
}

// The C interface, for the C++ one throws, and builds a hash map each time.
void TileMatmul::Run(size_t size, const Weights& weights, const void* x,
                     void* y, Scratch& scratch) const {
  const Kernel& kernel = kernels_->all[size];
  Scratch::Memory& of_thread = *scratch.memory_;
  const KernelArguments& arguments =
      of_thread.arguments.find(kernel.id)->second;
  // oneDNN only reads x.
  Check(dnnl_memory_set_data_handle(arguments.x.get(), const_cast<void*>(x)));
  Check(dnnl_memory_set_data_handle(arguments.y.get(), y));
  Check(dnnl_memory_set_data_handle(arguments.scratchpad.get(),
                                    of_thread.scratchpad.data()));
  const std::array<dnnl_exec_arg_t, 4> list = {{
      {DNNL_ARG_SRC, arguments.x.get()},
      {DNNL_ARG_WEIGHTS, weights.memory_->packed.get()},
      {DNNL_ARG_DST, arguments.y.get()},
      {DNNL_ARG_SCRATCHPAD, arguments.scratchpad.get()},
  }};
  Check(dnnl_primitive_execute(kernel.matmul.get(), of_thread.stream.get(),
                               static_cast<int>(list.size()), list.data()));
  Check(dnnl_stream_wait(of_thread.stream.get()));
}

}  // namespace steadystate
