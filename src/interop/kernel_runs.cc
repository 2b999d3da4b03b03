#include "interop/kernel_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "interop/interconnect.h"
#include "interop/run_cells.h"
#include "interop/run_machine.h"
#include "time/attained.h"
#include "time/price.h"

namespace ztplan {
namespace {

constexpr int kMostSize = 10'000'000;
constexpr double kMostBytes = 1e13;
constexpr double kTera = 1e12, kGiga = 1e9;

bool has_all(const CsvTable& table,
             std::initializer_list<std::string_view> columns) {
  return std::ranges::all_of(
      columns, [&](std::string_view column) { return table.has(column); });
}

int size_cell(const CsvRow& row, std::string_view column) {
  const int size = whole_cell(row, column, kMostSize).value_or(0);
  if (size == 0) throw Skip(fmt::format("{} is not stated", column));
  return size;
}

/// What is to be priced, where, and how long it took.
struct KernelRun {
  std::string what;  // completes the source
  std::string detail;
  ClusterSpec cluster;
  std::vector<Work> works;  // one after another
  Bytes added;              // that they move beside
  Seconds launch;           // that nothing hides
  /// Groups of one call: a host launches the works of each. Source:
  /// NVIDIA/TransformerEngine, general_grouped_gemm (cuBLAS on a few streams).
  int times = 1;
  bool is_loaded = false;  // it was measured under load for seconds
  Seconds measured;
};

Precision dtype_of(const CsvRow& row) {
  const std::string text = folded(row.get("dtype"));
  if (text.starts_with("fp8")) return Precision::fp8;
  if (text == "nvfp4") return Precision::fp4;
  if (text == "bf16") return Precision::bf16;
  if (text == "fp16") return Precision::fp16;
  if (text == "fp32") return Precision::fp32;
  throw Skip("its dtype is not known");
}

/// TensorRT-LLM quantizes 16-bit activations as they come: a scale is cleared,
/// a pass finds the maximum, one reads again and writes bytes, and the scale is
/// cast. Source: NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/common/cudaFp8Utils.cu
/// (invokeComputeFP8QuantizeScale, invokeQuantizeMatrix) and
/// _torch/modules/linear.py (FP8QDQLinearMethod). To fp4, whose scale is known,
/// one pass reads and writes 16 values and their scale (NVFP4LinearMethod).
void add_quantization(const CsvRow& row, const Matmul& work,
                      std::vector<Work>& works) {
  if (!is_narrow(work.precision)) return;
  if (!notes_say(row, "include activation quantisation")) return;
  constexpr std::int64_t kMaximum = 2, kWrite = 2 + 1;
  constexpr std::int64_t kRead = 2, kBlock = 16, kBlocks = kBlock / 2 + 1;
  constexpr int kScalars = 2;  // kernels that touch the scale alone
  const std::int64_t elements = work.batch * work.m * work.k;
  if (work.precision == Precision::fp4) {
    works.emplace_back(
        Stream{Bytes{elements * kRead + elements * kBlocks / kBlock}});
    return;
  }
  for (int i = 0; i < kScalars; ++i) works.emplace_back(Stream{});
  works.emplace_back(Stream{Bytes{elements * kMaximum}});
  works.emplace_back(Stream{Bytes{elements * kWrite}});
}

/// What an accumulated product reads to add to, beside its own operands.
Bytes read_to_add(const CsvRow& row, const Matmul& work) {
  if (!notes_say(row, "accumulate=True")) return {};
  const std::int64_t element = notes_say(row, "out fp32") ? 4 : 2;
  return {work.m * work.n * element};
}

/// The three products of a layer of tokens m, input k and output n.
void turn_to_stage(const CsvRow& row, Matmul& work) {
  if (notes_say(row, "stage bwd_grad_act")) std::swap(work.n, work.k);
  if (!notes_say(row, "stage bwd_grad_w")) return;
  std::swap(work.m, work.k);
  std::swap(work.m, work.n);
}

// Sources that run a product back to back for many launches, where a power
// limit shows: 75 after 25 (MooreThreads/SimuMax, simu_tools/efficency_test).
// Others time a few.
constexpr std::array<std::string_view, 1> kUnderLoad = {"simumax"};

KernelRun read_product(const CsvRow& row) {
  Matmul work;
  work.precision = dtype_of(row);
  work.m = size_cell(row, "m");
  work.n = size_cell(row, "n");
  work.k = size_cell(row, "k");
  const auto rate = number_cell(row, "tflops");
  if (!rate) throw Skip("nothing comparable was measured");
  KernelRun run;
  run.times = std::max(1, noted_number(row, "grouped gemm, ").value_or(1));
  run.measured = run.times * (flops(work) / FlopsPerSecond{*rate * kTera});
  turn_to_stage(row, work);
  run.works = {work};
  run.added = read_to_add(row, work);
  add_quantization(row, work, run.works);
  run.what = row.get("dtype");
  run.detail =
      fmt::format("{} of {} x {} x {}", run.times, work.m, work.n, work.k);
  run.cluster = machine_of_run(row, {}, 1);
  run.is_loaded = std::ranges::find(kUnderLoad, folded(row.get("source"))) !=
                  kUnderLoad.end();
  return run;
}

struct CollectiveName {
  std::string_view cell;
  CollectiveOp op;
};
constexpr std::array kCollectives = {
    CollectiveName{"all_reduce", CollectiveOp::all_reduce},
    CollectiveName{"all_gather", CollectiveOp::all_gather},
    CollectiveName{"reduce_scatter", CollectiveOp::reduce_scatter},
    CollectiveName{"alltoall", CollectiveOp::all_to_all},
    CollectiveName{"all_to_all", CollectiveOp::all_to_all},
};

CollectiveOp op_of(const CsvRow& row) {
  const std::string cell = folded(row.get("collective"));
  const auto found =
      std::ranges::find(kCollectives, cell, &CollectiveName::cell);
  if (found == kCollectives.end()) throw Skip("not a collective of NCCL's");
  return found->op;
}

ClusterOverrides links_of(const CsvRow& row) {
  const std::string cell = folded(row.get("interconnect"));
  ClusterOverrides links;
  if (says(cell, "pcie 4")) links.intra = "pcie4";
  if (says(cell, "pcie 5")) links.intra = "pcie5";
  links.network = network_of(row.get("interconnect"));
  return links;
}

// torch.distributed launches and waits for each collective of a benchmark: 32
// to 256 KiB take 19 to 25 us longer than in a loop of nccl-tests on H200 and
// B200. Source: stas00/ml-engineering network against ai-dynamo/aiconfigurator.
constexpr Seconds kTorchLaunch{22e-6};

// Figures of two decimals say nothing of small messages.
constexpr double kLeastRate = 0.1;

/// Both bandwidths of a row, to three digits and two decimals, agree.
void check_rates(double stated, double implied) {
  constexpr double kDigits = 0.05, kDecimals = 0.02;
  if (std::abs(stated - implied) > kDigits * implied + kDecimals)
    throw Skip("its two bandwidths contradict each other");
}

/// nccl-tests' algbw: bytes of the larger buffer over time.
double algorithm_rate(const CsvRow& row, CollectiveOp op, int gpus) {
  const double ring = (gpus - 1.0) / gpus;
  const double factor = op == CollectiveOp::all_reduce ? 2 * ring : ring;
  const auto stated = number_cell(row, "algbw_GBps");
  const auto bus = number_cell(row, "busbw_GBps");
  if (!stated && !bus) throw Skip("nothing comparable was measured");
  if (stated && bus) check_rates(*bus, *stated * factor);
  const double rate = stated ? *stated : *bus / factor;
  if (rate < kLeastRate) throw Skip("its rate is rounded to one digit");
  return rate * kGiga;
}

KernelRun read_collective(const CsvRow& row) {
  const CollectiveOp op = op_of(row);
  const auto size = number_cell(row, "size_bytes");
  if (!size) throw Skip("size_bytes is not stated");
  if (*size < 1 || *size > kMostBytes) throw Skip("size_bytes is absurd");
  const int gpus = size_cell(row, "gpus");
  const int nodes = std::max(1, whole_cell(row, "nodes", gpus).value_or(1));
  if (gpus < 2 || gpus % nodes != 0)
    throw Skip("the number of GPUs is not stated");
  ClusterOverrides links = links_of(row);
  if (nodes > 1)
    links.gpus_per_node = gpus / nodes;
  else
    links.network.clear();
  const Collective work{op, {gpus, 1}, Bytes{std::llround(*size)}};
  KernelRun run;
  run.what = row.get("collective");
  run.detail =
      fmt::format("{:.0f} bytes, {} GPUs, {} nodes", *size, gpus, nodes);
  run.cluster = machine_of_run(row, links, gpus);
  run.works = {work};
  if (notes_say(row, "PyTorch")) run.launch = kTorchLaunch;
  run.measured = Seconds{*size / algorithm_rate(row, op, gpus)};
  return run;
}

/// A clock may exceed the one that a data sheet counts with, but not by more.
void check_peak(const KernelRun& run) {
  constexpr double kAboveSheet = 1.15;
  const auto* product = std::get_if<Matmul>(&run.works.front());
  if (product == nullptr) return;
  const FlopsPerSecond peak =
      product_peak(run.cluster.device, product->precision);
  if (run.times * (flops(*product) / peak) > kAboveSheet * run.measured)
    throw Skip("it is faster than the GPU's peak");
}

/// Reduction in a switch may double what the links carry, but not more.
void check_links(const KernelRun& run) {
  constexpr double kInSwitch = 2;
  const auto* collective = std::get_if<Collective>(&run.works.front());
  if (collective == nullptr) return;
  const BytesPerSecond link = run.cluster.levels.front().bandwidth;
  if (sent_bytes(*collective) / link > kInSwitch * run.measured)
    throw Skip("it is faster than the GPU's links");
}

Seconds predict(const KernelRun& run) {
  Calibration calibration = published_calibration(run.cluster.device);
  if (!run.is_loaded) calibration.matmul_loaded.value = 1;
  const Machine machine{run.cluster, calibration};
  Seconds once = run.launch + run.added / attained_memory_bandwidth(machine);
  for (const Work& work : run.works) once += price(work, machine);
  if (run.times == 1) return once;
  return run.times * std::max(once, Seconds{calibration.kernel_start.value});
}

RunResult price_row(const CsvRow& row, KernelRun (*read)(const CsvRow&)) {
  RunResult result;
  result.id = fmt::format("line {}", row.line());
  result.source = fmt::format("{} {}", row.get("source"), row.get("gpu"));
  try {
    check_cells(row);
    const KernelRun run = read(row);
    check_peak(run);
    check_links(run);
    result.source += " " + run.what;
    result.strategy = run.detail;
    result.measured_step = run.measured;
    result.predicted_step = predict(run);
  } catch (const Skip& skip) {
    result.skipped = skip.what();
  }
  return result;
}

std::vector<RunResult> price_all(const CsvTable& table,
                                 KernelRun (*read)(const CsvRow&)) {
  std::vector<RunResult> results;
  results.reserve(table.size());
  for (std::size_t i = 0; i < table.size(); ++i)
    results.push_back(price_row(table[i], read));
  return results;
}

}  // namespace

bool holds_products(const CsvTable& table) {
  return has_all(table, {"gpu", "dtype", "m", "n", "k", "tflops"});
}

bool holds_collectives(const CsvTable& table) {
  return has_all(table, {"gpu", "gpus", "collective", "size_bytes"});
}

std::vector<RunResult> predict_products(const CsvTable& table) {
  return price_all(table, read_product);
}

std::vector<RunResult> predict_collectives(const CsvTable& table) {
  return price_all(table, read_collective);
}

}  // namespace ztplan
