// Kernels of one device by their shapes: tiles of a GEMM over the multiprocessors, the pairs of
// attention that a mask leaves, and memory traffic for the rest.
//
//   t    = max(launch, startup + max(bytes / (bandwidth * efficiency), arithmetic))
//   GEMM   arithmetic = max(flops / (peak * sustained), min over tiles and splits of
//          ceil(tiles * splits / SMs) * 2 tm tn (k / splits + k_half) / (rate * tile / SMs) + splitting)
//   attention = ceil(blocks / SMs) / (blocks / SMs) * batch * heads
//          * (pairs + masked + queries * half_keys) * (operations + softmax) / (peak * efficiency)
//   t, launch and startup in us; bytes read plus written; bandwidth, peak and SMs from the topology
//
// GEMM. An SM computes one tile of tm x tn outputs at a time, so a product takes whole waves of
// tiles; small tiles fill a wave better but compute slower, and the fastest choice counts, as in a
// library's heuristics. k_half (in bytes of the contracted dim) is the prologue and epilogue of a
// tile. Splitting the contracted dim fills the SMs where tiles are few, and costs the partial sums.
// No shape computes faster than `sustained`, the share of the peak that the device's power allows.
// Without a shape, arithmetic is flops / (peak * sustained).
//
// Attention. The mask saves pairs, but a block of queries computes its last block of keys whole
// (masked), each block starts and ends once (half_keys), and each pair costs a softmax beside the
// products, counted as operations of the same rate. FlashAttention-2 (the flash operator) and the
// kernels that are written for a generation (the cuDNN operator) have figures of their own. The
// former computes a sequence of 128 queries or more to the end of its last tile of 128.
//
// Sources: the tables in configs/measurements/kernels, to which the constants were fitted; a test
// holds the errors on their rows. Tiles and waves: NVIDIA, "Matrix Multiplication Background";
// stream-K splits: Osama et al. 2023. Valid: dense GEMMs and attention of 16 and 8 bits on
// compute capability 80 to 103. Not: what runs beside other kernels or on a throttled device; small
// or odd kernels of eager models, which take longer (the rows "profile-..." of the same tables say by
// how much), above all products whose rows are no multiple of 16 bytes, at 0.3 to 0.4 of the rate.
// Status: fitted to public measurements of single kernels.
#include <algorithm>
#include <array>
#include <cmath>

#include "costmodel/kernel_work.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

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
    {"gemm_startup_us", 2.5, 0.0, 1e6, "start-up of a GEMM, on top of its traffic or arithmetic"},
    {"attention_startup_us", 2.5, 0.0, 1e6,
     "start-up of attention, on top of its traffic or arithmetic"},
    {"tile_efficiency", 0.888, 1e-6, 1.0,
     "share of an SM's peak rate that the inner loop of the largest tile reaches"},
    {"k_half_bytes", 372.0, 0.0, 1e6,
     "bytes of the contracted dim whose time is a tile's prologue and epilogue"},
    {"split_us", 1.0, 0.0, 1e6, "what splitting the contracted dim adds, beside its traffic"},
    {"flops_efficiency", std::nullopt, 1e-6, 1.0,
     "share of the peak rate that the best GEMM sustains; default by compute capability: 0.87 of "
     "80, 0.80 of 90, 0.78 of 100"},
    {"f8_flops_efficiency", std::nullopt, 1e-6, 1.0,
     "the same of 8-bit floats; default by compute capability: 0.73 of 90, 0.76 of 100"},
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
};

struct Tile {
  double m;
  double n;
  double rate;  // beside the largest tile
};
// Fitted to XLA's table of bf16 products on sm_90.
constexpr std::array kTiles = {Tile{128, 256, 1.0}, Tile{128, 128, 0.966}, Tile{64, 256, 0.773},
                               Tile{64, 128, 0.752}, Tile{64, 64, 0.639}};
constexpr std::array kSplits = {1.0, 2.0, 4.0, 8.0};
constexpr double kTileBytes = 128.0;  // of the contracted dim that one step of the loop reads

// Shares of the peak rate, and operations for each pair, of one direction of attention.
struct Direction {
  double efficiency;
  double softmax;    // operations that one pair's softmax costs beside the products
  double half_keys;  // keys whose time is the start and end of a block of queries
  double wide;       // rate of heads of more than 128 beside those up to 128
};
struct Generation {
  std::int64_t capability;  // from this compute capability on
  double flops_efficiency;
  double f8_flops_efficiency;
  Direction flash;
  Direction flash_backward;
  Direction cudnn;
  Direction cudnn_backward;
};
// GEMMs: the best of many shapes in Bekman's ml-engineering (A100, H100, B200, B300; H200 for 8
// bits). Attention: FlashAttention-2's and -3's published charts (A100, H100) and cudnn-frontend's
// tables (H200, GB200, GB300). FlashAttention-2 on Blackwell is an assumption, since no table was
// found: the instructions that it uses keep the rate that an SM of Hopper gives them.
constexpr std::array kGenerations = {Generation{0,
                                                0.869,
                                                0.869,
                                                {0.80, 77, 110, 0.86},
                                                {0.756, 226, 245, 0.86},
                                                {0.80, 77, 110, 0.86},
                                                {0.756, 226, 245, 0.86}},
                                     Generation{90,
                                                0.803,
                                                0.734,
                                                {0.432, 77, 110, 0.86},
                                                {0.409, 226, 245, 0.86},
                                                {1.0, 225, 287, 0.94},
                                                {0.82, 348, 589, 0.78}},
                                     Generation{100,
                                                0.776,
                                                0.763,
                                                {0.213, 77, 110, 0.86},
                                                {0.201, 226, 245, 0.86},
                                                {1.0, 216, 746, 1.0},
                                                {1.0, 1030, 392, 0.78}},
                                     Generation{103,
                                                0.786,
                                                0.745,
                                                {0.213, 77, 110, 0.86},
                                                {0.201, 226, 245, 0.86},
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

bool is_8_bit_float(DType dtype) { return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2; }

class Kernels final : public ComputeModel {
 public:
  explicit Kernels(const ModelInput& input)
      : topology_(input.topology),
        multiprocessors_(static_cast<double>(input.topology.multiprocessors())),
        launch_(input.params.get("launch_us").value_or(input.topology.device().launch.value())),
        memory_startup_(input.params["memory_startup_us"]),
        gemm_startup_(input.params["gemm_startup_us"]),
        attention_startup_(input.params["attention_startup_us"]),
        tile_efficiency_(input.params["tile_efficiency"]),
        k_half_bytes_(input.params["k_half_bytes"]),
        split_us_(input.params["split_us"]),
        efficient_share_(input.params["efficient_attention_share"]),
        f8_attention_speedup_(input.params["f8_attention_speedup"]),
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
    set("flops_efficiency", figures_.flops_efficiency);
    set("f8_flops_efficiency", figures_.f8_flops_efficiency);
    set("flash_efficiency", figures_.flash.efficiency);
    set("flash_backward_efficiency", figures_.flash_backward.efficiency);
    set("cudnn_efficiency", figures_.cudnn.efficiency);
    set("cudnn_backward_efficiency", figures_.cudnn_backward.efficiency);
  }

  [[nodiscard]] Price price(const KernelQuery& query) const override {
    if (query.bytes <= 0 && query.flops <= 0) return {};
    const Micros memory = transfer_time(query.bytes, bandwidth_of(query));
    const Micros arithmetic(arithmetic_us(query));
    return Price::of_compute(
        std::max(launch_, startup_of(query.kind) + std::max(memory, arithmetic)));
  }

 private:
  [[nodiscard]] GBps bandwidth_of(const KernelQuery& query) const {
    switch (query.kind) {
      case Kernel::kCopy:
      case Kernel::kView:
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
    if (kind == Kernel::kGemm) return gemm_startup_;
    return kind == Kernel::kAttention ? attention_startup_ : memory_startup_;
  }

  [[nodiscard]] double arithmetic_us(const KernelQuery& query) const {
    const double peak = topology_.peak(query.dtype).value() * 1e6;  // operations in a microsecond
    const double sustained =
        is_8_bit_float(query.dtype) ? figures_.f8_flops_efficiency : figures_.flops_efficiency;
    if (query.kind == Kernel::kAttention && query.attention) {
      return attention_us(*query.attention, query.dtype);
    }
    const double bound = query.flops / (peak * sustained);
    if (query.kind != Kernel::kGemm || !query.gemm) return bound;
    return std::max(bound, tiled_us(*query.gemm, query.dtype, peak));
  }

  [[nodiscard]] double tiled_us(const GemmShape& shape, DType dtype, double peak) const {
    const double element = itemsize(dtype);
    const double step = kTileBytes / element;
    const double k_half = k_half_bytes_ / element;
    const double rate = peak * tile_efficiency_ / multiprocessors_;  // of one SM
    const double outputs = shape.batch * shape.m * shape.n;
    double best = INFINITY;
    for (const Tile& tile : kTiles) {
      const double tiles = shape.batch * std::ceil(shape.m / tile.m) * std::ceil(shape.n / tile.n);
      for (const double split : kSplits) {
        const double waves = std::ceil(tiles * split / multiprocessors_);
        const double depth = std::ceil(shape.k / (split * step)) * step + k_half;
        double us = waves * 2.0 * tile.m * tile.n * depth / (rate * tile.rate);
        // Each split writes partial sums of f32, which are read again.
        if (split > 1.0) us += split_us_ + 8.0 * split * outputs / (bandwidth_.value() * 1e3);
        best = std::min(best, us);
        if (tiles >= 8.0 * multiprocessors_) break;  // splits don't pay where waves are many
      }
    }
    return best;
  }

  [[nodiscard]] double attention_us(const AttentionShape& shape, DType dtype) const {
    const bool is_cudnn = shape.kernel == AttentionKernel::kCudnn;
    const Direction& direction =
        shape.backward ? (is_cudnn ? figures_.cudnn_backward : figures_.flash_backward)
                       : (is_cudnn ? figures_.cudnn : figures_.flash);
    // 8-bit attention is measured beside 16 bits, since its softmax is no faster.
    const bool is_8_bit = is_8_bit_float(dtype);
    double rate =
        topology_.peak(is_8_bit ? DType::kBF16 : dtype).value() * 1e6 * direction.efficiency;
    if (is_8_bit) rate *= f8_attention_speedup_;
    if (std::max(shape.key_dim, shape.value_dim) > 128.0) rate *= direction.wide;
    if (shape.kernel == AttentionKernel::kEfficient) rate *= efficient_share_;
    // FlashAttention-2 computes sequences that end inside a tile to its end, but has other tiles for a
    // few queries, as in decoding. The figures of cuDNN's kernels were fitted without that, and fit
    // worse with it.
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
  Micros gemm_startup_;
  Micros attention_startup_;
  double tile_efficiency_;
  double k_half_bytes_;
  double split_us_;
  double efficient_share_;
  double f8_attention_speedup_;
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
    .source = "fitted to configs/measurements/kernels: XLA, FlashAttention, cuDNN, DeepGEMM",
    .valid_range = "GEMMs and attention of 16 and 8 bits on A100, H100, H200, B200 and B300",
    .params = kParams,
    .make_compute = [](const ModelInput& input) -> std::unique_ptr<ComputeModel> {
      return std::make_unique<Kernels>(input);
    },
};

}  // namespace shardlab
