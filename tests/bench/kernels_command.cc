// `steadystate-bench kernels`: each kernel beside the limit that it runs into,
// memory or arithmetic, both measured in turns.

#include <algorithm>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "tests/bench/attention_section.h"
#include "tests/bench/bandwidth.h"
#include "tests/bench/chunk_section.h"
#include "tests/bench/command.h"
#include "tests/bench/environment.h"
#include "tests/bench/huge_floats.h"
#include "tests/bench/projections.h"
#include "tests/bench/step_kernels.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {
namespace {

constexpr size_t kLineFloats = 16;

constexpr absl::string_view kParts[] = {"bandwidth", "steps", "chunks",
                                        "attention", "projections"};

struct HeadSize {
  size_t K;
  size_t V;
  const char* model;
};
constexpr HeadSize kHeads[] = {{32, 32, "demo"},
                               {16, 256, "mamba"},
                               {128, 64, "mamba2-370m"},
                               {128, 256, "gla-340m"},
                               {256, 512, "gla-1.3b"}};

struct ProjectionSize {
  std::string name;
  size_t in;
  size_t out;
};
const ProjectionSize kProjections[] = {{"mamba2-370m in_proj", 1024, 4384},
                                       {"mamba2-370m out_proj", 2048, 1024},
                                       {"gla-340m q, k, v, gate", 1024, 3088},
                                       {"gla-340m gate, up", 1024, 5632}};
constexpr size_t kRows[] = {1, 8, 32, 64, 256, 512};
// A segment of so many rows is a prompt's.
constexpr size_t kPrefillRows = 64;

class KernelsCommand final : public Command {
 public:
  CommandText text() const override;
  client::OptionTable options() override;
  absl::Status Check(const RunOptions& run) override;
  absl::StatusOr<Report> Run(const RunOptions& run) override;

 private:
  bool Wanted(absl::string_view part) const {
    return only_.empty() || only_ == part;
  }
  absl::Status ReadSizes();
  absl::Status CheckKernel() const;
  // 1 and as many as there are.
  std::vector<size_t> Teams() const;
  Section Bandwidths(const RunOptions& run) const;
  Section Steps(bool in_cache, const RunOptions& run) const;
  nlohmann::json StepRow(const StepKernel& kernel, const StepInputs& in,
                         const HugeFloats& memory, size_t samples,
                         MemoryProbe& probe, ThreadPool& pool) const;
  absl::StatusOr<Section> Projections(const RunOptions& run) const;
  absl::Status AddProjections(DType dtype, const ProjectionSize& size,
                              const RunOptions& run, Section& section) const;

  std::optional<uint32_t> threads_option_;
  size_t threads_ = 1;
  std::string only_;
  std::string kernel_;
  std::string sizes_option_;
  std::string weights_;
  std::vector<ProjectionSize> sizes_;
};

CommandText KernelsCommand::text() const {
  return {
      "kernels", "Each kernel beside the limit that it runs into",
      "Step kernels: heads of random states, one token each, in turns with a "
      "loop that does no more than read, and write, the same memory. Chunk "
      "kernels: a head of a prompt's chunk, its state in cache, in turns with "
      "a loop that multiplies and adds within registers. "
      "Softmax attention: caches of several sessions, in turns with a loop "
      "that "
      "reads as much. "
      "Projections: weights that stream from DRAM, in turns with a loop that "
      "reads as much, and GFLOP/s beside the best of all numbers of rows.",
      "  steadystate-bench kernels\n"
      "  steadystate-bench kernels --only steps --threads 2\n"};
}

client::OptionTable KernelsCommand::options() {
  return {
      {"threads", "N",
       "The larger team; the smaller is one thread. Default: as many as "
       "this process may keep processors busy.",
       &threads_option_},
      {"only", "PART",
       "One of bandwidth, steps, chunks, attention, projections. Default: all.",
       &only_},
      {"kernel", "NAME",
       "The step kernels whose names begin like this. Default: all.", &kernel_},
      {"sizes", "NxN,...",
       "Inputs and outputs of the projections, 2048x2048 for instance. "
       "Default: those of some models.",
       &sizes_option_},
      {"weights", "TYPE",
       "The projections' weights, f32, bf16, int8 or int4. Default: all.",
       &weights_}};
}

absl::Status KernelsCommand::Check(const RunOptions&) {
  threads_ = threads_option_.value_or(UsableCpus());
  if (threads_ < 1 || threads_ > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--threads is ", threads_, "; it must be 1 to ", kMaxThreads));
  }
  if (!only_.empty() && !absl::c_linear_search(kParts, only_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--only is '", only_, "'; it must be one of ",
                     absl::StrJoin(kParts, ", ")));
  }
  constexpr absl::string_view kWeights[] = {"", "f32", "bf16", "int8", "int4"};
  if (!absl::c_linear_search(kWeights, weights_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--weights is '", weights_, "'; it must be f32, bf16, int8 or int4"));
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadSizes());
  return CheckKernel();
}

absl::Status KernelsCommand::ReadSizes() {
  constexpr size_t kMost = size_t{1} << 16;
  sizes_.assign(std::begin(kProjections), std::end(kProjections));
  if (sizes_option_.empty()) return absl::OkStatus();
  sizes_.clear();
  for (const absl::string_view part : absl::StrSplit(sizes_option_, ',')) {
    const std::vector<absl::string_view> sides = absl::StrSplit(part, 'x');
    ProjectionSize size{std::string(part), 0, 0};
    if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &size.in) ||
        !absl::SimpleAtoi(sides[1], &size.out) || size.in == 0 ||
        size.out == 0 || size.in > kMost || size.out > kMost) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--sizes has '", part, "'; it must be two numbers from 1 to ", kMost,
          ", such as 2048x1024"));
    }
    sizes_.push_back(std::move(size));
  }
  return absl::OkStatus();
}

absl::Status KernelsCommand::CheckKernel() const {
  std::vector<absl::string_view> names;
  for (const StepKernel& kernel : StepKernels()) {
    if (absl::StartsWith(kernel.name, kernel_)) return absl::OkStatus();
    names.push_back(kernel.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--kernel is '", kernel_,
                   "', and no step kernel's name begins like this; there are ",
                   absl::StrJoin(names, "; ")));
}

std::vector<size_t> KernelsCommand::Teams() const {
  if (threads_ == 1) return {1};
  return {1, threads_};
}

Section KernelsCommand::Bandwidths(const RunOptions& run) const {
  Section section{"bandwidth",
                  "Memory bandwidth, GB/s",
                  {{"threads", "threads"},
                   {"dram_read", "DRAM read", 1},
                   {"dram_read_write", "DRAM read+write", 1},
                   {"cache_read", "cache read", 1},
                   {"cache_read_write", "cache read+write", 1}},
                  {}};
  for (const size_t threads : Teams()) {
    const Bandwidth dram =
        MeasureBandwidth(threads, run.Unless(size_t{1} << 20, size_t{1} << 30),
                         3 * run.repetitions);
    const Bandwidth cache = MeasureBandwidth(
        threads, threads * (size_t{1} << 19), 100 * run.repetitions);
    nlohmann::json row = {{"threads", threads}};
    Put(row, "dram_read", dram.read.Times(1 / kGiga));
    Put(row, "dram_read_write", dram.read_write.Times(1 / kGiga));
    Put(row, "cache_read", cache.read.Times(1 / kGiga));
    Put(row, "cache_read_write", cache.read_write.Times(1 / kGiga));
    section.rows.push_back(std::move(row));
  }
  return section;
}

// Every head in `states` by one token; returns seconds.
double StepAll(const StepKernel& kernel, const StepInputs& in,
               std::byte* states, size_t heads, ThreadPool& pool,
               std::vector<float>& o) {
  const size_t bytes = kernel.state_bytes(in.K, in.V);
  // No two workers write to one cache line.
  const size_t stride = OutputFloats(in.K, in.V) + kLineFloats;
  return TimeOnce([&] {
    pool.ParallelFor(heads, [&](size_t head, size_t worker) {
      std::byte* const state = states + head * bytes;
      kernel.step(in, state, o.data() + worker * stride,
                  head + 1 < heads ? state + bytes : nullptr);
    });
  });
}

nlohmann::json KernelsCommand::StepRow(const StepKernel& kernel,
                                       const StepInputs& in,
                                       const HugeFloats& memory, size_t samples,
                                       MemoryProbe& probe,
                                       ThreadPool& pool) const {
  const size_t each = kernel.state_bytes(in.K, in.V);
  const size_t heads = memory.size() * sizeof(float) / each;
  auto* const states = reinterpret_cast<std::byte*>(memory.data());
  // What another kernel left there would mean something else.
  std::fill_n(memory.data(), memory.size(), 0.0f);
  std::vector<float> o(pool.size() * (OutputFloats(in.K, in.V) + kLineFloats));
  StepAll(kernel, in, states, heads, pool, o);
  const size_t moved = (kernel.writes ? 2 : 1) * heads * each;
  Samples times, rates, limits;
  for (size_t i = 0; i < samples; ++i) {
    limits.Add(kernel.writes ? probe.ReadWrite() : probe.Read());
    const double seconds = StepAll(kernel, in, states, heads, pool, o);
    times.Add(seconds / static_cast<double>(heads));
    rates.Add(static_cast<double>(moved) / seconds);
  }
  nlohmann::json row = {{"kernel", kernel.name},
                        {"head", absl::StrCat(in.K, "x", in.V)},
                        {"threads", pool.size()}};
  Put(row, "ns_per_head", times.Times(1e9));
  Put(row, "gb_per_second", rates.Times(1 / kGiga));
  row["limit_gb_per_second"] = limits.Median() / kGiga;
  Put(row, "fraction", Ratios(rates, limits));
  return row;
}

Section KernelsCommand::Steps(bool in_cache, const RunOptions& run) const {
  Section section{in_cache ? "steps_in_cache" : "steps_in_dram",
                  in_cache ? "Step kernels, states in cache"
                           : "Step kernels, states in DRAM",
                  {{"kernel", "kernel"},
                   {"head", "head"},
                   {"threads", "threads"},
                   {"ns_per_head", "ns/head", 0},
                   {"gb_per_second", "GB/s", 1},
                   {"limit_gb_per_second", "loop, GB/s", 1},
                   {"fraction", "fraction", 2}},
                  {}};
  for (const size_t threads : Teams()) {
    ThreadPool pool(threads);
    const size_t floats = in_cache
                              ? threads * (size_t{1} << 17)
                              : run.Unless(size_t{1} << 20, size_t{1} << 28);
    const HugeFloats memory(floats, 0.0f);
    // The loop has memory of its own: states in 16 bits are no floats.
    const HugeFloats other(in_cache ? floats / 2 : floats, 1.0f);
    MemoryProbe probe(other.data(), other.size(), pool);
    // So many passes that a clock can time them.
    const size_t passes = in_cache ? run.Unless<size_t>(1, 200) : 1;
    for (const StepKernel& kernel : StepKernels()) {
      if (!absl::StartsWith(kernel.name, kernel_)) continue;
      for (const HeadSize& head : kHeads) {
        if (kernel.state_bytes(head.K, head.V) * threads >
            floats * sizeof(float)) {
          continue;
        }
        section.rows.push_back(StepRow(kernel, StepInputs(head.K, head.V),
                                       memory, run.repetitions * passes, probe,
                                       pool));
      }
    }
  }
  return section;
}

absl::Status KernelsCommand::AddProjections(DType dtype,
                                            const ProjectionSize& size,
                                            const RunOptions& run,
                                            Section& section) const {
  const size_t bytes = run.Unless(size_t{1} << 10, size_t{256} << 20);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const auto stack,
      ProjectionStack::Create(dtype, size.in, size.out, bytes));
  const HugeFloats memory(run.Unless(size_t{1} << 18, size_t{1} << 26), 1.0f);
  for (const size_t threads : Teams()) {
    ThreadPool pool(threads);
    MemoryProbe probe(memory.data(), memory.size(), pool);
    const size_t first_row = section.rows.size();
    double best = 0;
    for (const size_t rows : kRows) {
      const RowClass row_class =
          rows >= kPrefillRows ? RowClass::kPrefill : RowClass::kDecode;
      stack->Time(rows, row_class, pool);
      Samples times, limits;
      for (size_t i = 0; i < run.repetitions; ++i) {
        limits.Add(probe.Read());
        times.Add(stack->Time(rows, row_class, pool));
      }
      const double flop =
          2.0 * static_cast<double>(rows * size.in * size.out * stack->count());
      const Samples bandwidth = times.Into(stack->weight_bytes());
      nlohmann::json row = {{"projection", size.name},
                            {"dtype", Name(dtype)},
                            {"threads", threads},
                            {"rows", rows}};
      Put(row, "us", times.Times(1e6 / static_cast<double>(stack->count())));
      Put(row, "gb_per_second", bandwidth.Times(1 / kGiga));
      Put(row, "fraction_of_read", Ratios(bandwidth, limits));
      Put(row, "gflop_per_second", times.Into(flop / kGiga));
      best = std::max(best, row["gflop_per_second"].get<double>());
      section.rows.push_back(std::move(row));
    }
    for (size_t i = first_row; i < section.rows.size(); ++i) {
      nlohmann::json& row = section.rows[i];
      row["fraction_of_peak"] = row["gflop_per_second"].get<double>() / best;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Section> KernelsCommand::Projections(
    const RunOptions& run) const {
  Section section{"projections",
                  "Projections, weights in DRAM",
                  {{"projection", "projection"},
                   {"dtype", "weights"},
                   {"threads", "threads"},
                   {"rows", "rows"},
                   {"us", "us", 0},
                   {"gb_per_second", "weights, GB/s", 1},
                   {"fraction_of_read", "of read", 2},
                   {"gflop_per_second", "GFLOP/s", 0},
                   {"fraction_of_peak", "of best", 2}},
                  {}};
  for (const DType dtype :
       {DType::kF32, DType::kI8, DType::kI4, DType::kBf16}) {
    if (!weights_.empty() && weights_ != Name(dtype)) continue;
    for (const ProjectionSize& size : sizes_) {
      STEADYSTATE_RETURN_IF_ERROR(AddProjections(dtype, size, run, section));
      if (run.quick) break;
    }
  }
  return section;
}

absl::StatusOr<Report> KernelsCommand::Run(const RunOptions& run) {
  Report report{"kernels", DescribeEnvironment(), {}, {}};
  if (Wanted("bandwidth")) report.sections.push_back(Bandwidths(run));
  if (Wanted("steps")) {
    report.sections.push_back(Steps(/*in_cache=*/false, run));
    report.sections.push_back(Steps(/*in_cache=*/true, run));
  }
  if (Wanted("chunks")) {
    report.sections.push_back(ChunkSection(Teams(), run));
  }
  if (Wanted("attention")) {
    report.sections.push_back(AttentionSection(Teams(), run));
  }
  if (Wanted("projections")) {
    STEADYSTATE_ASSIGN_OR_RETURN(report.sections.emplace_back(),
                                 Projections(run));
  }
  return report;
}

}  // namespace

std::unique_ptr<Command> MakeKernelsCommand() {
  return std::make_unique<KernelsCommand>();
}

}  // namespace steadystate::bench
