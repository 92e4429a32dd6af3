// Kernels of one device by their shapes: tiles of a GEMM over the multiprocessors, the pairs of
// attention that a mask leaves, and memory traffic for the rest.
//
//   t    = max(launch, startup + max(bytes / (bandwidth * efficiency), arithmetic))
//   GEMM   arithmetic = max(flops / (peak * sustained * rows), min over tiles and splits of
//          2 tm tn (waves * k / splits / rows + (1 + later * (waves - 1)) * k_half) / (rate * tile
//          / SMs) + splitting), where waves = ceil(tiles * splits / SMs)
//   attention = ceil(blocks / SMs) / (blocks / SMs) * batch * heads
//          * (pairs + masked + queries * half_keys) * (operations + softmax) / (peak * efficiency)
//   t, launch and startup in us; bytes read plus written; bandwidth, peak and SMs from the topology
//
// GEMM. An SM computes one tile of tm x tn outputs at a time, so a product takes whole waves of
// tiles; small tiles fill a wave better but compute slower, and the fastest choice counts, as in a
// library's heuristics. k_half (in bytes of the contracted dim) is the prologue and epilogue of a
// tile, of which later waves cost the share `later`: Hopper's persistent kernels hide the rest.
// Splitting the contracted dim fills the SMs where tiles are few, and costs the partial sums. A
// product with a vector runs at the memory's rate, since it uses each element of the matrix once.
// No shape computes faster than `sustained`, the share of the peak that the device's power allows
// large products.
// Without a shape, arithmetic is flops / (peak * sustained). Wide loads, and the tensor memory
// accelerator of Hopper and later, need rows that are multiples of 16 bytes in memory. Products of
// 16 bits with other rows run Ampere's kernels on every GPU of NVIDIA, with Ampere's constants and
// at a share of the peak, and at the rate `rows` of the contracted dim: one where rows are
// multiples of 4 or 8 bytes, and a lower one where they have an odd number of elements.
//
// Products of f32 that round to TF32 have a tile efficiency and a k_half of their own, fitted to
// XLA's products of f32 on sm_90 and sm_100, which reach 0.81 and 0.77 of TF32's peak rate.
// Convolutions, which have no shape here, take the share of the peak that large products sustain,
// and attention of f32 the constants of 16 bits: assumptions, since no table of them was found.
//
// Attention. The mask saves pairs, but a block of queries computes its last block of keys whole
// (masked), each block starts and ends once (half_keys), and each pair costs a softmax beside the
// products, counted as operations of the same rate. FlashAttention-2 (the flash operator) and the
// kernels that are written for a generation (the cuDNN operator) have figures of their own. The
// former computes a sequence of 128 queries or more to the end of its last tile of 128.
//
// Sources: the tables in configs/measurements/kernels, to which the constants were fitted; a test
// holds the errors on their rows. Tiles and waves: NVIDIA, "Matrix Multiplication Background";
// stream-K splits: Osama et al. 2023; alignment: the same guide of NVIDIA, "Tensor Core
// Requirements", and NVIDIA/cutlass issue 847. Valid: dense GEMMs and attention of 16 and 8 bits on
// compute capability 80 to 103, dense GEMMs of TF32 on 90 and 100, and dense GEMMs of 16 bits on
// AMD's gfx942 and gfx950, which are capability 94 and 95 in PyTorch. Not: what runs beside other
// kernels or on a throttled device; small or odd kernels of eager models, which take longer (the
// rows "profile-..." of the same tables say by how much).
// Status: fitted to public measurements of single kernels.
#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/kernel_work.h"
#include "costmodel/models/tf32.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

// The rates of Ampere's kernels where rows are multiples of 4 or 8 bytes, and where they have an
// odd number of elements, beside those of aligned rows.
constexpr double kEvenRowRate = 0.641;
constexpr double kOddRowRate = 0.317;

constexpr ParamSpec kParams[] = {
    {"launch_us", std::nullopt, 0.0, 1e6, "launch floor of a kernel; default: the topology's own"},
    {"memory_efficiency", 0.85, 1e-6, 1.0,
     "share of the memory bandwidth that a kernel reaches; copies of an H100 reach 2.9 of 3.35 "
     "TB/s"},
    {"copy_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that copies reach; default: memory_efficiency"},
    {"strided_copy_efficiency", 0.44, 1e-6, 1.0,
     "share of the memory bandwidth that strided copies reach, as in a reshuffle; large ones "
     "reach 0.40 to 0.47 on an H100, in profiles of other projects"},
    {"elementwise_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the memory bandwidth that elementwise kernels reach; default: memory_efficiency"},
    {"reduction_efficiency", 0.75, 1e-6, 1.0,
     "share of the memory bandwidth that reductions reach; compiled norms reach 0.6 to 0.76"},
    {"memory_startup_us", 2.0, 0.0, 1e6,
     "start-up of a copy, an elementwise kernel or a reduction, on top of its traffic"},
    {"gemm_startup_us", std::nullopt, 0.0, 1e6,
     "start-up of a GEMM, on top of its traffic or arithmetic; default by compute capability: 5 of "
     "80 and 100, 3.8 of 90, 4.6 of 94, 2.6 of 95"},
    {"attention_startup_us", 2.5, 0.0, 1e6,
     "start-up of attention, on top of its traffic or arithmetic"},
    {"tile_efficiency", std::nullopt, 1e-6, 1.0,
     "share of an SM's peak rate that the inner loop of a tile of 128 x 256 outputs (256 x 256 on "
     "AMD's "
     "GPUs) reaches; default by compute capability: 0.815 of 80, 0.85 of 90, 0.799 of 100, 0.55 of "
     "94, 0.615 of 95"},
    {"f8_tile_efficiency", std::nullopt, 1e-6, 1.0,
     "the same of 8-bit floats; default by compute capability: 0.815 of 80, 0.85 of 90, 0.817 of "
     "100, "
     "0.697 of 94, 0.545 of 95"},
    {"tf32_tile_efficiency", std::nullopt, 1e-6, 1.0,
     "the same of products of f32 that round to TF32; default by compute capability: 0.815 of 80 "
     "(assumed), 0.652 of 90, 0.832 of 100"},
    {"k_half_bytes", std::nullopt, 0.0, 1e6,
     "bytes of the contracted dim whose time is a tile's prologue and epilogue; default by compute "
     "capability: 316 of 80, 1152 of 90, 546 of 100, 356 of 94, 855 of 95"},
    {"tf32_k_half_bytes", std::nullopt, 0.0, 1e6,
     "the same of products of f32 that round to TF32; default by compute capability: 316 of 80 "
     "(assumed), 2039 of 90, 1565 of 100"},
    {"later_wave_share", std::nullopt, 0.0, 1.0,
     "share of k_half_bytes that each wave of tiles after the first costs; default by compute "
     "capability: 0.295 of 90, 1 of others"},
    {"split_us", std::nullopt, 0.0, 1e6,
     "what splitting the contracted dim adds, beside its traffic; default by compute capability: "
     "0.9 of 80, 1 of 90, 3.1 of 100, 0 of 94 and 95"},
    {"flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that large GEMMs sustain; default by compute capability: 0.805 of 80, "
     "0.803 of 90, 0.776 of 100, 0.786 of 103, 0.446 of 94, 0.568 of 95"},
    {"f8_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "the same of 8-bit floats; default by compute capability: 0.73 of 90, 0.76 of 100, 0.67 of "
     "94, "
     "0.39 of 95"},
    {"ampere_kernel_share", std::nullopt, 0.0, 1.0,
     "share of the peak rate that Ampere's kernels reach, beside their share on A100; they run "
     "products of 16 bits whose rows are no multiple of 16 bytes; 0: such products cost as much as "
     "aligned ones; default by compute capability: 1 of 80, 0.44 of 90, 0.22 of 100 (assumed), 0 "
     "of "
     "94 and 95 (assumed)"},
    {"even_row_rate", kEvenRowRate, 1e-6, 1.0,
     "rate of such a product whose rows are a multiple of 4 or 8 bytes, beside an aligned one"},
    {"odd_row_rate", kOddRowRate, 1e-6, 1.0, "the same where rows have an odd number of elements"},
    {"flash_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate of FlashAttention-2's products, forward; default by compute "
     "capability: 0.80 of 80, 0.43 of 90, 0.21 of 100 (assumed)"},
    {"flash_backward_efficiency", std::nullopt, 1e-6, 1.0,
     "the same, backward; default by compute capability: 0.76 of 80, 0.41 of 90, 0.20 of 100 "
     "(assumed)"},
    {"cudnn_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate of the products of cuDNN's attention, forward; default: 1 from 90 "
     "on, where its softmax is the rest; flash_efficiency below"},
    {"cudnn_backward_efficiency", std::nullopt, 1e-6, 1.0,
     "the same, backward; default by compute capability: 0.82 of 90, 1 of 100"},
    {"efficient_attention_share", 0.48, 1e-6, 1.0,
     "rate of the efficient operator (xFormers) beside the flash operator"},
    {"f8_attention_speedup", 1.5, 1.0, 2.0, "rate of attention of 8-bit floats beside 16 bits"},
    kTf32Matmul,
    kTf32Convolution,
};

struct Tile {
  double m;
  double n;
  double rate;  // beside the first tile
};
// The constants of a generation's products of matrices.
struct Gemm {
  double startup_us;
  double flops_efficiency;
  double f8_flops_efficiency;
  double tile_efficiency;
  double f8_tile_efficiency;
  double tf32_tile_efficiency;
  double k_half_bytes;
  double tf32_k_half_bytes;
  double later_waves;  // share of k_half_bytes of each wave after the first
  double split_us;
  std::array<Tile, 5> tiles;
};
// A contracted dim is split into kMostSplits parts at most, or into as many as have kDeepSplit
// elements each. Status: assumed.
constexpr double kMostSplits = 8.0;
constexpr double kDeepSplit = 16384.0;
constexpr double kTileBytes = 128.0;      // of the contracted dim that one step of the loop reads
constexpr double kAlignmentBytes = 16.0;  // of rows, for the fastest loads

// Shares of the peak rate, and operations for each pair, of one direction of attention.
struct Direction {
  double efficiency;
  double softmax;    // operations that one pair's softmax costs beside the products
  double half_keys;  // keys whose time is the start and end of a block of queries
  double wide;       // rate of heads of more than 128 beside those up to 128
};
struct Generation {
  std::int64_t capability;  // from this compute capability on
  Gemm gemm;
  // The share of the peak rate that Ampere's kernels reach, beside the share on Ampere itself. 0:
  // such kernels do not run, and products are priced as if they were aligned.
  double ampere_share;
  Direction flash;
  Direction flash_backward;
  Direction cudnn;
  Direction cudnn_backward;
};
// Tiles: fitted to XLA's tables of bf16 products on sm_90, sm_100, gfx942 and gfx950, and to the
// products of EleutherAI's cookbook on A100, whose times are the slowest of 200. Shares of the
// peak: the best of many shapes in Bekman's ml-engineering (H100, B200, B300; H200 for 8 bits), the
// best in XLA's tables (gfx942, gfx950), and the cookbook (A100). Rates of products that are not
// aligned: fitted to the cookbook (A100). cuBLAS runs the kernels of Ampere for them on Hopper
// (NVIDIA/cutlass issue 847; the names of such kernels in profiles), so their tiles are priced
// there, at 0.44 of the share of the peak, which is fitted to five profiled products on H100;
// FlashAttention-2, whose instructions are Ampere's too, reaches 0.54. Blackwell's 0.22 is an
// assumption: the share halves, as FlashAttention-2's is taken to. No table of such products on
// AMD's GPUs was found.
constexpr Gemm kAmpereGemm = {
    .startup_us = 5.0,
    .flops_efficiency = 0.805,
    .f8_flops_efficiency = 0.805,
    .tile_efficiency = 0.815,
    .f8_tile_efficiency = 0.815,
    .tf32_tile_efficiency = 0.815,
    .k_half_bytes = 316,
    .tf32_k_half_bytes = 316,
    .later_waves = 1.0,
    .split_us = 0.9,
    .tiles =
        {{{128, 256, 1.0}, {128, 128, 0.998}, {64, 256, 0.937}, {64, 128, 0.791}, {64, 64, 0.664}}},
};
constexpr Gemm kHopperGemm = {
    .startup_us = 3.8,
    .flops_efficiency = 0.803,
    .f8_flops_efficiency = 0.734,
    .tile_efficiency = 0.850,
    .f8_tile_efficiency = 0.850,
    .tf32_tile_efficiency = 0.652,
    .k_half_bytes = 1152,
    .tf32_k_half_bytes = 2039,
    .later_waves = 0.295,
    .split_us = 1.0,
    .tiles =
        {{{128, 256, 1.0}, {128, 128, 1.084}, {64, 256, 1.082}, {64, 128, 0.795}, {64, 64, 0.597}}},
};
constexpr Gemm kBlackwellGemm = {
    .startup_us = 5.0,
    .flops_efficiency = 0.776,
    .f8_flops_efficiency = 0.763,
    .tile_efficiency = 0.799,
    .f8_tile_efficiency = 0.817,
    .tf32_tile_efficiency = 0.832,
    .k_half_bytes = 546,
    .tf32_k_half_bytes = 1565,
    .later_waves = 1.0,
    .split_us = 3.1,
    .tiles = {{{128, 256, 1.0},
               {128, 128, 0.919},
               {64, 256, 0.1 /* never the fastest in the fit */},
               {64, 128, 0.735},
               {64, 64, 0.514}}},
};
constexpr Gemm kGfx942Gemm = {
    .startup_us = 4.6,
    .flops_efficiency = 0.446,
    .f8_flops_efficiency = 0.667,
    .tile_efficiency = 0.550,
    .f8_tile_efficiency = 0.697,
    .tf32_tile_efficiency = 0.550,
    .k_half_bytes = 356,
    .tf32_k_half_bytes = 356,
    .later_waves = 1.0,
    .split_us = 0.0,
    .tiles = {{{256, 256, 1.0},
               {256, 128, 0.892},
               {128, 128, 0.739},
               {128, 64, 0.413},
               {64, 64, 0.559}}},
};
constexpr Gemm kGfx950Gemm = {
    .startup_us = 2.6,
    .flops_efficiency = 0.568,
    .f8_flops_efficiency = 0.388,
    .tile_efficiency = 0.615,
    .f8_tile_efficiency = 0.545,
    .tf32_tile_efficiency = 0.615,
    .k_half_bytes = 855,
    .tf32_k_half_bytes = 855,
    .later_waves = 1.0,
    .split_us = 0.0,
    .tiles = {{{256, 256, 1.0},
               {256, 128, 0.780},
               {128, 128, 0.552},
               {128, 64, 0.421},
               {64, 64, 0.421}}},
};
constexpr Gemm with_efficiency(Gemm gemm, double flops_efficiency, double f8_flops_efficiency) {
  gemm.flops_efficiency = flops_efficiency;
  gemm.f8_flops_efficiency = f8_flops_efficiency;
  return gemm;
}

// Attention: FlashAttention-2's and -3's published charts (A100, H100) and cudnn-frontend's tables
// (H200, GB200, GB300). FlashAttention-2 on Blackwell is an assumption, since no table was found:
// the instructions that it uses keep the rate that an SM of Hopper gives them. Attention on AMD's
// GPUs is taken for Hopper's share of the peak, an assumption too.
constexpr Direction kHopperFlash = {0.432, 77, 110, 0.86};
constexpr Direction kHopperFlashBackward = {0.409, 226, 245, 0.86};
constexpr Direction kHopperCudnn = {1.0, 225, 287, 0.94};
constexpr Direction kHopperCudnnBackward = {0.82, 348, 589, 0.78};
constexpr Direction kBlackwellFlash = {0.213, 77, 110, 0.86};
constexpr Direction kBlackwellFlashBackward = {0.201, 226, 245, 0.86};
constexpr std::array kGenerations = {
    Generation{0,
               kAmpereGemm,
               1.0,
               {0.80, 77, 110, 0.86},
               {0.756, 226, 245, 0.86},
               {0.80, 77, 110, 0.86},
               {0.756, 226, 245, 0.86}},
    Generation{90, kHopperGemm, 0.44, kHopperFlash, kHopperFlashBackward, kHopperCudnn,
               kHopperCudnnBackward},
    Generation{94, kGfx942Gemm, 0.0, kHopperFlash, kHopperFlashBackward, kHopperCudnn,
               kHopperCudnnBackward},
    Generation{95, kGfx950Gemm, 0.0, kHopperFlash, kHopperFlashBackward, kHopperCudnn,
               kHopperCudnnBackward},
    Generation{100,
               kBlackwellGemm,
               0.22,
               kBlackwellFlash,
               kBlackwellFlashBackward,
               {1.0, 216, 746, 1.0},
               {1.0, 1030, 392, 0.78}},
    Generation{103,
               with_efficiency(kBlackwellGemm, 0.786, 0.745),
               0.22,
               kBlackwellFlash,
               kBlackwellFlashBackward,
               {1.0, 115, 786, 1.06},
               {1.0, 769, 470, 0.79}}};
constexpr double kQueryTile = 128.0;  // queries of one block, and keys of one step

const Generation& generation_of(const Topology& topology) {
  const std::int64_t capability =
      topology.device().compute_capability.value_or(kDefaultComputeCapability);
  const Generation* found = &kGenerations[0];
  for (const Generation& generation : kGenerations) {
    if (generation.capability <= capability) found = &generation;
  }
  return *found;
}

bool is_16_bit(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }
bool is_8_bit_float(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

class Kernels final : public ComputeModel {
 public:
  explicit Kernels(const ModelInput& input)
      : topology_(input.topology),
        multiprocessors_(static_cast<double>(input.topology.multiprocessors())),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        memory_startup_(input.params["memory_startup_us"]),
        attention_startup_(input.params["attention_startup_us"]),
        even_row_rate_(input.params["even_row_rate"]),
        odd_row_rate_(input.params["odd_row_rate"]),
        efficient_share_(input.params["efficient_attention_share"]),
        f8_attention_speedup_(input.params["f8_attention_speedup"]),
        tf32_(input),
        figures_(generation_of(input.topology)) {
    const Params& params = input.params;
    const GBps bandwidth = topology_.device().memory_bandwidth;
    const double general = params["memory_efficiency"];
    const double copies = params.get("copy_efficiency").value_or(general);
    bandwidth_ = general * bandwidth;
    copy_ = copies * bandwidth;
    strided_copy_ = params["strided_copy_efficiency"] * bandwidth;
    elementwise_ = params.get("elementwise_efficiency").value_or(general) * bandwidth;
    reduction_ = params["reduction_efficiency"] * bandwidth;
    const auto set = [&](std::string_view name, double& figure) {
      figure = params.get(name).value_or(figure);
    };
    set("gemm_startup_us", figures_.gemm.startup_us);
    set("tile_efficiency", figures_.gemm.tile_efficiency);
    set("f8_tile_efficiency", figures_.gemm.f8_tile_efficiency);
    set("tf32_tile_efficiency", figures_.gemm.tf32_tile_efficiency);
    set("k_half_bytes", figures_.gemm.k_half_bytes);
    set("tf32_k_half_bytes", figures_.gemm.tf32_k_half_bytes);
    set("later_wave_share", figures_.gemm.later_waves);
    set("split_us", figures_.gemm.split_us);
    set("flops_efficiency", figures_.gemm.flops_efficiency);
    set("f8_flops_efficiency", figures_.gemm.f8_flops_efficiency);
    set("ampere_kernel_share", figures_.ampere_share);
    set("flash_efficiency", figures_.flash.efficiency);
    set("flash_backward_efficiency", figures_.flash_backward.efficiency);
    set("cudnn_efficiency", figures_.cudnn.efficiency);
    set("cudnn_backward_efficiency", figures_.cudnn_backward.efficiency);
  }

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.kind == Kernel::kView || (query.bytes <= 0 && query.flops <= 0)) return {};
    const Micros memory = transfer_time(query.bytes, bandwidth_of(query));
    const Micros arithmetic(arithmetic_us(query));
    return Price::of_compute(
        std::max(launch_, startup_of(query.kind) + std::max(memory, arithmetic)));
  }

 private:
  [[nodiscard]] GBps bandwidth_of(const KernelQuery& query) const {
    switch (query.kind) {
      case Kernel::kCopy:
        return query.strided ? strided_copy_ : copy_;
      case Kernel::kElementwise:
        return elementwise_;
      case Kernel::kReduction:
        return reduction_;
      default:
        return bandwidth_;
    }
  }

  [[nodiscard]] Micros startup_of(Kernel kind) const {
    if (kind == Kernel::kGemm) return Micros(figures_.gemm.startup_us);
    return kind == Kernel::kAttention ? attention_startup_ : memory_startup_;
  }

  [[nodiscard]] double arithmetic_us(const KernelQuery& query) const {
    const std::optional<Tflops> tf32 = tf32_.peak_of(query);
    // The peak rate, in operations per microsecond.
    const double peak = tf32.value_or(topology_.peak(query.dtype)).value() * 1e6;
    if (query.kind == Kernel::kAttention && query.attention) {
      return attention_us(*query.attention, query.dtype, peak);
    }
    if (query.kind == Kernel::kGemm && query.gemm) {
      const bool is_unaligned = is_16_bit(query.dtype) && query.gemm->row_multiple > 0.0 &&
                                query.gemm->row_multiple * itemsize(query.dtype) < kAlignmentBytes;
      if (is_unaligned && figures_.ampere_share > 0.0) {
        const double rows = query.gemm->row_multiple > 1.0 ? even_row_rate_ : odd_row_rate_;
        return gemm_us(query, kAmpereGemm, peak * figures_.ampere_share, rows);
      }
      return gemm_us(query, figures_.gemm, peak, 1.0);
    }
    return real_operations(query) * query.flops / (peak * sustained_by(figures_.gemm, query.dtype));
  }

  [[nodiscard]] static double sustained_by(const Gemm& gemm, DType dtype) {
    return is_8_bit_float(dtype) ? gemm.f8_flops_efficiency : gemm.flops_efficiency;
  }

  // The arithmetic of a product by kernels with these constants. `rows` is their rate for its rows
  // in memory, beside aligned ones.
  [[nodiscard]] double gemm_us(const KernelQuery& query, const Gemm& gemm, double peak,
                               double rows) const {
    const GemmShape& shape = *query.gemm;
    const double operations = real_operations(query);
    const double sustained =
        operations * query.flops / (peak * sustained_by(gemm, query.dtype) * rows);
    // A vector leaves no tiles to fill: its kernels read the matrix at the memory's rate.
    if (shape.m <= 1.0 || shape.n <= 1.0) return sustained;
    const double element = itemsize(query.dtype);
    const double step = kTileBytes / element;
    const bool is_tf32 = tf32_.peak_of(query).has_value();
    const double k_half = (is_tf32 ? gemm.tf32_k_half_bytes : gemm.k_half_bytes) / element;
    const double efficiency = is_tf32                       ? gemm.tf32_tile_efficiency
                              : is_8_bit_float(query.dtype) ? gemm.f8_tile_efficiency
                                                            : gemm.tile_efficiency;
    const double rate = peak * efficiency / multiprocessors_;  // of one SM
    const double outputs = shape.batch * shape.m * shape.n;
    double best = INFINITY;
    for (const Tile& tile : gemm.tiles) {
      const double tiles = shape.batch * std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n);
      for (double split = 1.0; split <= kMostSplits || shape.k / split >= kDeepSplit;
           split *= 2.0) {
        const double waves = std::ceil(tiles * split / multiprocessors_);
        const double depth = waves * std::ceil(shape.k / (split * step)) * step / rows +
                             (1.0 + gemm.later_waves * (waves - 1.0)) * k_half;
        double us = 2.0 * tile.m * tile.n * depth / (rate * tile.rate);
        // Each split writes partial sums of f32, which are read again.
        if (split > 1.0) us += gemm.split_us + 8.0 * split * outputs / (bandwidth_.value() * 1e3);
        best = std::min(best, us);
        // Splits don't pay where waves are many, nor more of them where all SMs have work.
        if (tiles >= 8.0 * multiprocessors_) break;
        if (split >= kMostSplits && tiles * split >= multiprocessors_) break;
      }
    }
    return std::max(operations * best, sustained);
  }

  // `peak` is the rate of the dtype, in operations in a microsecond.
  [[nodiscard]] double attention_us(const AttentionShape& shape, DType dtype, double peak) const {
    const bool is_cudnn = shape.kernel == AttentionKernel::kCudnn;
    const Direction& direction =
        shape.backward ? (is_cudnn ? figures_.cudnn_backward : figures_.flash_backward)
                       : (is_cudnn ? figures_.cudnn : figures_.flash);
    // 8-bit attention is measured beside 16 bits, since its softmax is no faster.
    const bool is_8_bit = is_8_bit_float(dtype);
    double rate = is_8_bit ? topology_.peak(DType::kBF16).value() * 1e6 : peak;
    rate *= direction.efficiency;
    if (is_8_bit) rate *= f8_attention_speedup_;
    if (std::max(shape.key_dim, shape.value_dim) > 128.0) rate *= direction.wide;
    if (shape.kernel == AttentionKernel::kEfficient) rate *= efficient_share_;
    // FlashAttention-2 computes sequences that end inside a tile to its end, but has other tiles
    // for a few queries, as in decoding. The figures of cuDNN's kernels were fitted without that,
    // and fit worse with it.
    AttentionShape tiled = shape;
    if (!is_cudnn && shape.queries >= kQueryTile) {
      tiled.queries = std::ceil(shape.queries / kQueryTile) * kQueryTile;
      tiled.keys = std::ceil(shape.keys / kQueryTile) * kQueryTile;
    }
    const double masked = (shape.causal ? 0.5 : 0.0) + (shape.window > 0.0 ? 0.5 : 0.0);
    const double pairs = std::min(attention_pairs(tiled) + masked * kQueryTile * tiled.queries,
                                  tiled.queries * tiled.keys) +
                         tiled.queries * direction.half_keys;
    const double operations = (shape.backward ? 5.0 : 2.0) * (shape.key_dim + shape.value_dim);
    const double heads = shape.batch * shape.heads;
    const double waves = heads * std::ceil(shape.queries / kQueryTile) / multiprocessors_;
    const double quantised = waves > 0.0 ? std::ceil(waves) / waves : 1.0;
    return quantised * heads * pairs * (operations + direction.softmax) / rate;
  }

  Topology topology_;
  double multiprocessors_;
  Micros launch_;
  Micros memory_startup_;
  Micros attention_startup_;
  double even_row_rate_;
  double odd_row_rate_;
  double efficient_share_;
  double f8_attention_speedup_;
  Tf32Settings tf32_;
  Generation figures_;
  GBps bandwidth_;
  GBps copy_;
  GBps strided_copy_;
  GBps elementwise_;
  GBps reduction_;
};

}  // namespace

COST_MODEL(kernels){
    .name = "kernels",
    .summary = "GEMMs by tiles and waves, attention by the pairs that a mask leaves, traffic",
    .formula = "max(launch, startup + max(bytes / (bandwidth * eff), arithmetic by shape))",
    .source = "fitted to configs/measurements/kernels: XLA, EleutherAI, FlashAttention, cuDNN",
    .valid_range =
        "GEMMs and attention of 16 and 8 bits on A100, H100, H200, B200 and B300; GEMMs of TF32 on "
        "H100, H200 and B200; GEMMs of 16 bits on MI300X and MI355X",
    .params = kParams,
    .make_compute = [](const ModelInput& input) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<Kernels>(input);
    },
};

}  // namespace shardlab
