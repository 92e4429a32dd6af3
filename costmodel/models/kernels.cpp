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
#include <stdexcept>

#include "costmodel/base/fixed_text.h"
#include "costmodel/kernel_work.h"
#include "costmodel/models/tf32.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

// The rates of Ampere's kernels where rows are multiples of 4 or 8 bytes, and where they have an
// odd number of elements, beside those of aligned rows.
constexpr double kEvenRowRate = 0.641;
constexpr double kOddRowRate = 0.317;

struct Tile {
  double m;
  double n;
  double rate;  // relative to the first tile
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
// Bytes of the contracted dim that a step of the loop reads.
constexpr double kTileBytes = 128.0;
constexpr double kAlignmentBytes = 16.0;  // what rows must be a multiple of for the fastest loads

// Shares of the peak rate, and operations for each pair, of one direction of attention.
struct Direction {
  double efficiency;
  double softmax;    // operations that one pair's softmax costs beside the products
  double half_keys;  // keys that take as long as the start and end of a block of queries
  double wide;       // rate of heads wider than 128, relative to narrower ones
};
struct Generation {
  // Compute capabilities up to that of the next generation belong to this one, and those below the
  // first generation's to the first.
  std::int64_t capability;
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
    Generation{80,
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

// The compute capabilities for which no table of such kernels was found: their constants are
// assumed.
using Capabilities = std::array<std::int64_t, 4>;
constexpr Capabilities kNoTableOfF8 = {80};
constexpr Capabilities kNoTableOfTf32 = {80, 94, 95};
constexpr Capabilities kNoTableOfAmperesKernels = {94, 95, 100, 103};
constexpr Capabilities kNoTableOfFlash = {94, 95, 100, 103};
constexpr Capabilities kNoTableOfCudnn = {80, 94, 95};

// A constant of every generation that is a parameter of the model, too. The parameter's help lists
// the constants.
struct Figure {
  std::string_view name;
  double min;
  double max;
  std::string_view words;  // what it is
  double& (*of)(Generation&);
  Capabilities assumed = {};
};
template <auto kPart, auto kConstant>
constexpr double& of(Generation& generation) {
  return generation.*kPart.*kConstant;
}
constexpr double& ampere_share_of(Generation& generation) { return generation.ampere_share; }
constexpr Figure kFigures[] = {
    {"gemm_startup_us", 0.0, 1e6, "start-up of a GEMM, on top of its traffic or arithmetic",
     of<&Generation::gemm, &Gemm::startup_us>},
    {"tile_efficiency", 1e-6, 1.0,
     "share of an SM's peak rate that the inner loop of a tile of 128 x 256 outputs (256 x 256 on "
     "AMD's GPUs) reaches",
     of<&Generation::gemm, &Gemm::tile_efficiency>},
    {"f8_tile_efficiency", 1e-6, 1.0, "the same share for 8-bit floats",
     of<&Generation::gemm, &Gemm::f8_tile_efficiency>, kNoTableOfF8},
    {"tf32_tile_efficiency", 1e-6, 1.0, "the same share for products of f32 that round to TF32",
     of<&Generation::gemm, &Gemm::tf32_tile_efficiency>, kNoTableOfTf32},
    {"k_half_bytes", 0.0, 1e6,
     "bytes of the contracted dim that take as long as a tile's prologue and epilogue",
     of<&Generation::gemm, &Gemm::k_half_bytes>},
    {"tf32_k_half_bytes", 0.0, 1e6, "the same number for products of f32 that round to TF32",
     of<&Generation::gemm, &Gemm::tf32_k_half_bytes>, kNoTableOfTf32},
    {"later_wave_share", 0.0, 1.0,
     "share of k_half_bytes that each wave of tiles after the first costs",
     of<&Generation::gemm, &Gemm::later_waves>},
    {"split_us", 0.0, 1e6, "time that splitting the contracted dim adds, besides its traffic",
     of<&Generation::gemm, &Gemm::split_us>},
    {"flops_efficiency", 1e-6, 1.0, "share of the peak rate that large GEMMs sustain",
     of<&Generation::gemm, &Gemm::flops_efficiency>},
    {"f8_flops_efficiency", 1e-6, 1.0, "the same share for 8-bit floats",
     of<&Generation::gemm, &Gemm::f8_flops_efficiency>, kNoTableOfF8},
    {"ampere_kernel_share", 0.0, 1.0,
     "share of the peak rate that Ampere's kernels reach, relative to their share on A100; they "
     "run products of 16 bits whose rows are not a multiple of 16 bytes; with 0 such products cost "
     "as much as aligned ones",
     ampere_share_of, kNoTableOfAmperesKernels},
    {"flash_efficiency", 1e-6, 1.0,
     "share of the peak rate that FlashAttention-2's products reach in the forward pass",
     of<&Generation::flash, &Direction::efficiency>, kNoTableOfFlash},
    {"flash_backward_efficiency", 1e-6, 1.0, "the same share in the backward pass",
     of<&Generation::flash_backward, &Direction::efficiency>, kNoTableOfFlash},
    {"cudnn_efficiency", 1e-6, 1.0,
     "share of the peak rate that the products of cuDNN's attention reach in the forward pass, "
     "apart from its softmax",
     of<&Generation::cudnn, &Direction::efficiency>, kNoTableOfCudnn},
    {"cudnn_backward_efficiency", 1e-6, 1.0, "the same share in the backward pass",
     of<&Generation::cudnn_backward, &Direction::efficiency>, kNoTableOfCudnn},
};

constexpr double constant_of(const Figure& figure, Generation generation) {
  return figure.of(generation);
}
constexpr bool is_assumed(const Figure& figure, const Generation& generation) {
  return std::ranges::find(figure.assumed, generation.capability) != figure.assumed.end();
}

// "words; default, by compute capability: 5 for 80, 100 and 103; 3.8 for 90".
using HelpText = FixedText<512>;
constexpr HelpText help_of(const Figure& figure) {
  HelpText help;
  help.add(figure.words).add("; default, by compute capability: ");
  const auto has_equal = [&](const Generation& a, const Generation& b) {
    return constant_of(figure, a) == constant_of(figure, b) &&
           is_assumed(figure, a) == is_assumed(figure, b);
  };
  for (std::size_t first = 0; first < kGenerations.size(); ++first) {
    const Generation& own = kGenerations[first];
    const auto equals_own = [&](const Generation& other) { return has_equal(own, other); };
    if (std::any_of(kGenerations.begin(), kGenerations.begin() + first, equals_own)) continue;
    if (first > 0) help.add("; ");
    help.add(constant_of(figure, own)).add(" for ");
    auto left = std::count_if(kGenerations.begin() + first, kGenerations.end(), equals_own);
    for (std::size_t i = first; i < kGenerations.size(); ++i) {
      if (!equals_own(kGenerations[i])) continue;
      help.add(kGenerations[i].capability);
      --left;
      help.add(left > 1 ? ", " : left == 1 ? " and " : "");
    }
    if (is_assumed(figure, own)) help.add(" (assumed)");
  }
  return help;
}
constexpr auto kHelpOfFigures = [] {
  std::array<HelpText, std::size(kFigures)> helps;
  std::ranges::transform(kFigures, helps.begin(), help_of);
  return helps;
}();

constexpr ParamSpec spec_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFigures); ++i) {
    const Figure& figure = kFigures[i];
    if (figure.name == name) {
      return {name, std::nullopt, figure.min, figure.max, kHelpOfFigures[i].view()};
    }
  }
  throw std::invalid_argument("no figure has this name");
}

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
    spec_of("gemm_startup_us"),
    {"attention_startup_us", 2.5, 0.0, 1e6,
     "start-up of attention, on top of its traffic or arithmetic"},
    spec_of("tile_efficiency"),
    spec_of("f8_tile_efficiency"),
    spec_of("tf32_tile_efficiency"),
    spec_of("k_half_bytes"),
    spec_of("tf32_k_half_bytes"),
    spec_of("later_wave_share"),
    spec_of("split_us"),
    spec_of("flops_efficiency"),
    spec_of("f8_flops_efficiency"),
    spec_of("ampere_kernel_share"),
    {"even_row_rate", kEvenRowRate, 1e-6, 1.0,
     "rate of such a product whose rows are a multiple of 4 or 8 bytes, relative to an aligned "
     "one"},
    {"odd_row_rate", kOddRowRate, 1e-6, 1.0,
     "the same rate where rows have an odd number of elements"},
    spec_of("flash_efficiency"),
    spec_of("flash_backward_efficiency"),
    spec_of("cudnn_efficiency"),
    spec_of("cudnn_backward_efficiency"),
    {"efficient_attention_share", 0.48, 1e-6, 1.0,
     "rate of the efficient operator (xFormers) relative to the flash operator"},
    {"f8_attention_speedup", 1.5, 1.0, 2.0,
     "rate of attention of 8-bit floats relative to that of 16 bits"},
    kTf32Matmul,
    kTf32Convolution,
};

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
    for (const Figure& figure : kFigures) {
      if (const auto given = params.get(figure.name)) figure.of(figures_) = *given;
    }
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
    const double rate = peak * efficiency / multiprocessors_;  // the rate of one SM
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
