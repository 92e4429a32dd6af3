// Kernels of convolutions, forward and backward, in 1 to 3 spatial dims. The window has one
// position for each spatial element of the small side, which is the output or, in a transposed
// convolution, the input; it covers elements of the big side.
#include <algorithm>
#include <cmath>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/window.h"

namespace shardlab {
namespace convolution_kernels {

TensorMeta meta_of(const HostTensor& tensor) {
  return {.dtype = tensor.dtype(), .shape = tensor.shape(), .strides = {}};
}

std::int64_t product_of(const Shape& shape, std::size_t first = 0) {
  std::int64_t product = 1;
  for (std::size_t d = first; d < shape.size(); ++d) product *= shape[d];
  return product;
}

void expect_one_dtype(const LocalCall& local) {
  for (const HostTensor& tensor : local.inputs) expect_same_dtype(local, local.inputs[0], tensor);
}

// The three products of a convolution. Each takes the elements of the big side that the window
// covers at one position as a row, its patch, and multiplies patches and matrices. Patches of all
// samples are taken a block at a time.
class Products {
 public:
  Products(const LocalCall& local, const ConvolutionWindow& window, const Shape& small,
           const Shape& big, const Shape& weight)
      : positions_(product_of(small, 2)),
        extent_(product_of(big, 2)),
        reach_(product_of(weight, 2)),
        groups_(window.groups),
        channels_(weight[0] / window.groups),
        big_channels_(weight[1]),
        samples_(small[0]) {
    expect_room(local.call.op, saturating_product(positions_, reach_), local.memory);
    for (std::int64_t position = 0; position < positions_; ++position) {
      for (std::int64_t k = 0; k < reach_; ++k) {
        places_.push_back(covered(window, small, big, weight, position, k));
      }
    }
  }

  // The small side: patches of the big side times the weight.
  [[nodiscard]] std::vector<double> collect(const std::vector<double>& big,
                                            const std::vector<double>& weight) const {
    std::vector<double> small(to_index(samples_ * groups_ * channels_ * positions_));
    std::vector<double> turned(to_index(patch() * channels_));
    for_each_block([&](const Block& block) {
      for (std::int64_t o = 0; o < channels_; ++o) {
        for (std::int64_t i = 0; i < patch(); ++i) {
          turned[to_index(i * channels_ + o)] =
              weight[to_index((block.group * channels_ + o) * patch() + i)];
        }
      }
      const std::vector<double> patches = patches_of(block, big);
      std::vector<double> out(to_index(block.rows * channels_));
      matrix_product(patches.data(), turned.data(), out.data(), block.rows, patch(), channels_);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        for (std::int64_t o = 0; o < channels_; ++o) {
          small[small_index(block, row, o)] = out[to_index(row * channels_ + o)];
        }
      }
    });
    return small;
  }

  // The big side: what each element of the small side adds to its patch.
  [[nodiscard]] std::vector<double> spread(const std::vector<double>& small,
                                           const std::vector<double>& weight) const {
    std::vector<double> big(to_index(samples_ * groups_ * big_channels_ * extent_));
    for_each_block([&](const Block& block) {
      std::vector<double> rows(to_index(block.rows * channels_));
      for (std::int64_t row = 0; row < block.rows; ++row) {
        for (std::int64_t o = 0; o < channels_; ++o) {
          rows[to_index(row * channels_ + o)] = small[small_index(block, row, o)];
        }
      }
      std::vector<double> patches(to_index(block.rows * patch()));
      matrix_product(rows.data(), weight.data() + block.group * channels_ * patch(), patches.data(),
                     block.rows, channels_, patch());
      visit_patches(block, [&](std::size_t at, std::size_t place) { big[place] += patches[at]; });
    });
    return big;
  }

  // The weight: the products of each element of the small side and of its patch.
  [[nodiscard]] std::vector<double> correlate(const std::vector<double>& small,
                                              const std::vector<double>& big) const {
    std::vector<double> weight(to_index(groups_ * channels_ * patch()));
    std::vector<double> part(to_index(channels_ * patch()));
    for_each_block([&](const Block& block) {
      std::vector<double> columns(to_index(channels_ * block.rows));
      for (std::int64_t o = 0; o < channels_; ++o) {
        for (std::int64_t row = 0; row < block.rows; ++row) {
          columns[to_index(o * block.rows + row)] = small[small_index(block, row, o)];
        }
      }
      const std::vector<double> patches = patches_of(block, big);
      matrix_product(columns.data(), patches.data(), part.data(), channels_, block.rows, patch());
      const std::size_t begin = to_index(block.group * channels_ * patch());
      for (std::size_t i = 0; i < part.size(); ++i) weight[begin + i] += part[i];
    });
    return weight;
  }

 private:
  static constexpr std::int64_t kOutside = -1;
  // How many patches are multiplied at once, which bounds the memory that they take. Status:
  // chosen.
  static constexpr std::int64_t kMostRows = 256;

  // Rows of one group: row r is position (first + r) % positions_ of sample (first + r) /
  // positions_.
  struct Block {
    std::int64_t group = 0;
    std::int64_t first = 0;
    std::int64_t rows = 0;
  };

  // The place on the big side that element k of the window covers, within a channel.
  static std::int64_t covered(const ConvolutionWindow& window, const Shape& small, const Shape& big,
                              const Shape& weight, std::int64_t position, std::int64_t k) {
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (std::size_t d = small.size(); d-- > 2;) {
      const Window& w = window.windows[d - 2];
      const std::int64_t x =
          position % small[d] * w.stride - w.padding + k % weight[d] * w.dilation;
      if (x < 0 || x >= big[d]) return kOutside;
      place += x * stride;
      stride *= big[d];
      position /= small[d];
      k /= weight[d];
    }
    return place;
  }

  [[nodiscard]] std::int64_t patch() const { return big_channels_ * reach_; }
  [[nodiscard]] std::size_t small_index(const Block& block, std::int64_t row,
                                        std::int64_t o) const {
    const std::int64_t at = block.first + row;
    const std::int64_t channel = block.group * channels_ + o;
    return to_index((at / positions_ * groups_ * channels_ + channel) * positions_ +
                    at % positions_);
  }
  template <class Work>
  void for_each_block(Work&& work) const {
    const std::int64_t rows = samples_ * positions_;
    for (std::int64_t group = 0; group < groups_; ++group) {
      for (std::int64_t first = 0; first < rows; first += kMostRows) {
        work(Block{.group = group, .first = first, .rows = std::min(kMostRows, rows - first)});
      }
    }
  }
  // Calls visit(at, place) for each element of the block's patches that lies inside the big side:
  // where it is in the patches, and its flat index on the big side.
  template <class Visit>
  void visit_patches(const Block& block, Visit&& visit) const {
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t sample = (block.first + row) / positions_;
      const std::int64_t position = (block.first + row) % positions_;
      const std::int64_t* const places = places_.data() + position * reach_;
      for (std::int64_t c = 0; c < big_channels_; ++c) {
        const std::int64_t channel = block.group * big_channels_ + c;
        const std::int64_t begin = (sample * groups_ * big_channels_ + channel) * extent_;
        for (std::int64_t k = 0; k < reach_; ++k) {
          if (places[k] == kOutside) continue;
          visit(to_index(row * patch() + c * reach_ + k), to_index(begin + places[k]));
        }
      }
    }
  }
  [[nodiscard]] std::vector<double> patches_of(const Block& block,
                                               const std::vector<double>& big) const {
    std::vector<double> patches(to_index(block.rows * patch()));
    visit_patches(block, [&](std::size_t at, std::size_t place) { patches[at] = big[place]; });
    return patches;
  }

  // Positions of the window, which are the spatial elements of the small side.
  std::int64_t positions_;
  std::int64_t extent_;  // the spatial elements of the big side
  std::int64_t reach_;   // the spatial elements of the window
  std::int64_t groups_;
  std::int64_t channels_;      // channels of the small side in a group
  std::int64_t big_channels_;  // channels of the big side in a group
  std::int64_t samples_;
  std::vector<std::int64_t> places_;  // by position and element of the window
};

LocalResult run_convolution(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 3);
  expect_one_dtype(local);
  const HostTensor& input = local.required_tensor(0);
  const HostTensor& weight = local.required_tensor(1);
  const HostTensor* bias = local.tensor(2);
  const ConvolutionWindow window(local.call, meta_of(input), meta_of(weight), 0);
  const Shape& shape = window.output;
  if (bias != nullptr && (bias->ndim() != 1 || bias->extent(0) != shape[1])) {
    throw InputError(local.call.op + ": found a bias " + tensor_text(*bias) + "; valid: " +
                     tensor_text(bias->dtype(), {shape[1]}) + ", a number for each output channel");
  }
  expect_room(local.call.op, product_of(shape) + input.elements() + weight.elements(),
              local.memory);
  const std::vector<double> x = as_doubles(input);
  const std::vector<double> w = as_doubles(weight);
  std::vector<double> y =
      window.transposed
          ? Products(local, window, input.shape(), shape, weight.shape()).spread(x, w)
          : Products(local, window, shape, input.shape(), weight.shape()).collect(x, w);
  if (bias != nullptr) {
    const std::vector<double> added = as_doubles(*bias);
    const auto positions = static_cast<std::size_t>(product_of(shape, 2));
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += added[i / positions % added.size()];
  }
  return {{from_doubles(local.memory, input.dtype(), shape, y)}, {}};
}

// The --args are the extents of the bias (null or [0] if there is none), then the arguments of the
// forward op, then which gradients are asked for.
LocalResult run_backward(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  expect_one_dtype(local);
  const HostTensor& gradient = local.inputs[0];
  const HostTensor& input = local.inputs[1];
  const HostTensor& weight = local.inputs[2];
  const ConvolutionWindow window(local.call, meta_of(input), meta_of(weight), 1);
  if (gradient.shape() != window.output) {
    throw InputError(local.call.op + ": found a gradient " + tensor_text(gradient) +
                     "; valid: the output's shape, " +
                     tensor_text(gradient.dtype(), window.output));
  }
  std::vector<bool> mask = {true, true, true};
  const nlohmann::json& args = local.call.args;
  if (args.size() > 7 && args[7].is_array() && args[7].size() == 3) {
    for (std::size_t i = 0; i < 3; ++i) mask[i] = args[7][i].is_boolean() && args[7][i].get<bool>();
  }
  const auto bias = local.call.integers_arg(0).value_or(std::vector<std::int64_t>());
  const bool has_bias = !bias.empty() && bias != std::vector<std::int64_t>{0};
  mask[2] = mask[2] && has_bias;
  expect_room(local.call.op, 2 * (gradient.elements() + input.elements() + weight.elements()),
              local.memory);
  const std::vector<double> g = as_doubles(gradient);
  const std::vector<double> x = as_doubles(input);
  const std::vector<double> w = as_doubles(weight);
  const Products products =
      window.transposed ? Products(local, window, input.shape(), gradient.shape(), weight.shape())
                        : Products(local, window, gradient.shape(), input.shape(), weight.shape());
  LocalResult result;
  const auto add = [&](const Shape& shape, const std::vector<double>& values) {
    result.outputs.push_back(from_doubles(local.memory, input.dtype(), shape, values));
  };
  if (mask[0]) {
    add(input.shape(), window.transposed ? products.collect(g, w) : products.spread(g, w));
  }
  if (mask[1]) {
    add(weight.shape(), window.transposed ? products.correlate(x, g) : products.correlate(g, x));
  }
  if (!mask[2]) return result;
  std::vector<double> of_bias(static_cast<std::size_t>(gradient.extent(1)));
  const auto positions = static_cast<std::size_t>(product_of(gradient.shape(), 2));
  for (std::size_t i = 0; i < g.size(); ++i) of_bias[i / positions % of_bias.size()] += g[i];
  add(Shape{gradient.extent(1)}, of_bias);
  return result;
}

constexpr OpKernel kKernels[] = {
    {.name = "convolution", .run = run_convolution},
    {.name = "convolution_backward", .run = run_backward},
};

}  // namespace convolution_kernels

OP_KERNELS(convolution){convolution_kernels::kKernels};

}  // namespace shardlab
