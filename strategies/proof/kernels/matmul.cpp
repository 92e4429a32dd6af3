// Matrix products: any einsum equation of one or two inputs, computed as one batched product, and
// the products of scaled matrices and of groups of matrices.
#include <algorithm>
#include <array>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/einsum.h"

namespace shardlab {
namespace matmul_kernels {

// Some letters of an equation, with the extents of their dims.
struct Letters {
  std::string text;
  Shape extents;
  [[nodiscard]] std::int64_t product() const { return elements_of(extents); }
};

// The input's elements in row-major order of these letters. They repeat along letters that the
// input lacks.
std::vector<double> arranged(const std::vector<double>& values, const std::string& own,
                             const Shape& shape, const Letters& letters) {
  const Shape strides = row_major_strides(shape);
  Shape step(letters.text.size(), 0);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const std::size_t dim = own.find(letters.text[i]);
    if (dim != std::string::npos) step[i] = strides[dim];
  }
  std::vector<double> out(to_index(letters.product()));
  for_each_element(letters.extents, [&](const Shape& index, std::int64_t i) {
    out[to_index(i)] = values[to_index(flat_index(index, step))];
  });
  return out;
}

struct Product {
  Shape shape;
  std::vector<double> values;
};

Product multiply(const EinsumEquation& equation, std::span<const HostTensor> inputs,
                 const OpCall& call, const HostMemory& memory) {
  std::vector<Shape> shapes;
  for (const HostTensor& input : inputs) shapes.push_back(input.shape());
  static_cast<void>(equation.extents(shapes, call.op));
  const std::string& a = equation.inputs()[0];
  const std::string b = inputs.size() == 2 ? equation.inputs()[1] : std::string();
  const auto extent = [&](char letter) {
    const std::size_t dim = a.find(letter);
    return dim != std::string::npos ? shapes[0][dim] : shapes[1][b.find(letter)];
  };
  Letters batch;
  Letters rows;
  Letters columns;
  Letters contracted;
  const auto add = [&](Letters& letters, char letter) {
    letters.text += letter;
    letters.extents.push_back(extent(letter));
  };
  for (const char letter : equation.output()) {
    const bool in_a = a.find(letter) != std::string::npos;
    const bool in_b = b.find(letter) != std::string::npos;
    add(in_a && in_b ? batch : in_a ? rows : columns, letter);
  }
  for (const char letter : a + b) {
    const bool known = equation.output().find(letter) != std::string::npos ||
                       contracted.text.find(letter) != std::string::npos;
    if (!known) add(contracted, letter);
  }
  const auto join = [](const Letters& x, const Letters& y, const Letters& z) {
    Letters all{x.text + y.text + z.text, x.extents};
    all.extents.insert(all.extents.end(), y.extents.begin(), y.extents.end());
    all.extents.insert(all.extents.end(), z.extents.begin(), z.extents.end());
    return all;
  };
  expect_room(call.op, join(batch, rows, columns).product(), memory);
  expect_room(call.op, join(batch, rows, contracted).product(), memory);
  expect_room(call.op, join(batch, contracted, columns).product(), memory);
  const std::vector<double> left =
      arranged(as_doubles(inputs[0]), a, shapes[0], join(batch, rows, contracted));
  const std::vector<double> right =
      inputs.size() == 2
          ? arranged(as_doubles(inputs[1]), b, shapes[1], join(batch, contracted, columns))
          : std::vector<double>(static_cast<std::size_t>(contracted.product()), 1.0);
  const std::int64_t m = rows.product();
  const std::int64_t k = contracted.product();
  const std::int64_t n = columns.product();
  std::vector<double> result(static_cast<std::size_t>(batch.product() * m * n));
  for (std::int64_t i = 0; i < batch.product(); ++i) {
    matrix_product(left.data() + i * m * k, right.data() + (inputs.size() == 2 ? i * k * n : 0),
                   result.data() + i * m * n, m, k, n);
  }
  // Reorders the dims from batch, rows, columns to the output's order of letters.
  const Letters computed = join(batch, rows, columns);
  Letters wanted;
  for (const char letter : equation.output()) add(wanted, letter);
  return {wanted.extents, arranged(result, computed.text, computed.extents, wanted)};
}

template <std::size_t kSize>
struct Text {
  char text[kSize];                               // NOLINT: a literal as a template argument
  consteval Text(const char (&literal)[kSize]) {  // NOLINT
    for (std::size_t i = 0; i < kSize; ++i) text[i] = literal[i];
  }
};

// The tensors that the op reads.
std::span<const HostTensor> operands(const LocalCall& local, std::size_t count) {
  expect_operands(local, count);
  return local.inputs.first(count);
}

LocalResult result_of(const LocalCall& local, DType dtype, const Product& product) {
  return {{from_doubles(local.memory, dtype, product.shape, product.values)}, {}};
}

template <Text kEquation>
LocalResult run_product(const LocalCall& local, const OpKernel&) {
  const EinsumEquation equation = EinsumEquation::parse(kEquation.text);
  const auto inputs = operands(local, equation.inputs().size());
  const Product product = multiply(equation, inputs, local.call, local.memory);
  return result_of(local, inputs[0].dtype(), product);
}

// Adds the bias, which is broadcast. The --args are the factors of the bias and of the product.
template <Text kEquation>
LocalResult run_biased_product(const LocalCall& local, const OpKernel&) {
  const auto inputs = operands(local, 3);
  Product product =
      multiply(EinsumEquation::parse(kEquation.text), inputs.subspan(1), local.call, local.memory);
  const double beta = local.call.number_arg(0, 1.0);
  const double alpha = local.call.number_arg(1, 1.0);
  const HostTensor& bias = inputs[0];
  bool broadcasts = bias.shape().size() <= product.shape.size();
  for (std::size_t d = 0; broadcasts && d < bias.shape().size(); ++d) {
    const std::int64_t extent = product.shape[product.shape.size() - bias.shape().size() + d];
    broadcasts = bias.shape()[d] == 1 || bias.shape()[d] == extent;
  }
  if (!broadcasts) throw InputError(local.call.op + ": the bias does not broadcast to the product");
  const std::vector<double> values = as_doubles(bias);
  const Shape strides = broadcast_strides(bias.shape(), product.shape.size());
  for_each_element(product.shape, [&](const Shape& index, std::int64_t i) {
    double& value = product.values[to_index(i)];
    // A bias times zero is left out: it may be infinite.
    const double added = beta == 0.0 ? 0.0 : beta * values[to_index(flat_index(index, strides))];
    value = alpha * value + added;
  });
  return result_of(local, bias.dtype(), product);
}

// -- _scaled_mm -----------------------------------------------------------------------------------

// Which rows of the whole tensor's dim the rank has.
std::vector<std::int64_t> rows_of_dim(const LocalCall& local, std::size_t input, int dim) {
  const auto d = static_cast<std::size_t>(dim);
  if (!local.input_rows.empty()) {
    const auto& rows = local.input_rows[input][d];
    return {rows.begin(), rows.end()};
  }
  std::vector<std::int64_t> rows(static_cast<std::size_t>(local.inputs[input].shape()[d]));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i);
  return rows;
}

// The matrix times its scales, which are one number or one per block of elements. Scales of two
// dims stand in the order of the blocks. Scales of one dim stand in tiles, each of 128 rows and 4
// blocks: element [r % 32, r / 32, c] of a tile is the scale of row r and block c.
std::vector<double> scaled_matrix(const LocalCall& local, std::size_t input) {
  const HostTensor& data = local.inputs[input];
  const HostTensor& scale = local.inputs[input + 2];
  const Shape& whole = local.call.tensors()[input]->meta.shape;
  const Shape& whole_scale = local.call.tensors()[input + 2]->meta.shape;
  std::vector<double> values = as_doubles(data);
  const std::vector<double> scales = as_doubles(scale);
  const auto refuse = [&](const std::string& what) {
    throw InputError(local.call.op + ": " + what);
  };
  if (data.ndim() != 2 || scale.ndim() > 2) {
    refuse("found " + tensor_text(data) + " with scales " + tensor_text(scale) +
           "; valid: a matrix, and scales of at most 2 dims");
  }
  const bool number = std::all_of(whole_scale.begin(), whole_scale.end(),
                                  [](std::int64_t extent) { return extent == 1; });
  if (number) {
    if (scales.size() != 1) refuse("a rank lacks the scale of its elements");
    for (double& value : values) value *= scales[0];
    return values;
  }
  const std::int64_t columns = data.extent(1);
  if (scale.ndim() == 2) {
    // For each dim and local row: the row of the scales. Blocks are counted in the whole tensor.
    std::array<std::vector<std::int64_t>, 2> scale_rows;
    for (const int dim : {0, 1}) {
      const std::size_t d = to_index(dim);
      if (whole_scale[d] == 0) {
        refuse("found scales " + tensor_text(scale.dtype(), whole_scale) +
               "; valid: at least one element");
      }
      const std::int64_t block = (whole[d] + whole_scale[d] - 1) / whole_scale[d];
      const std::vector<std::int64_t> own = rows_of_dim(local, input + 2, dim);
      for (const std::int64_t row : rows_of_dim(local, input, dim)) {
        const auto found = std::find(own.begin(), own.end(), row / block);
        if (found == own.end()) refuse("a rank lacks the scale of its elements");
        scale_rows[d].push_back(found - own.begin());
      }
      std::vector<std::int64_t> used = scale_rows[d];
      used.erase(std::unique(used.begin(), used.end()), used.end());
      if (used.size() != own.size()) refuse("a rank has scales for elements that it does not have");
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto row = static_cast<std::size_t>(static_cast<std::int64_t>(i) / columns);
      const auto column = static_cast<std::size_t>(static_cast<std::int64_t>(i) % columns);
      values[i] *= scales[to_index(scale_rows[0][row] * scale.extent(1) + scale_rows[1][column])];
    }
    return values;
  }
  // Tiles are counted in the rank's part, not in the whole tensor.
  const int contracted = input == 0 ? 1 : 0;
  const std::int64_t block = scale.dtype() == DType::kF8E4M3 ? 8 : 32;
  const std::int64_t depth = (data.extent(contracted) + block - 1) / block;
  const std::int64_t tiles_across = (depth + 3) / 4;
  const std::int64_t tiles_down = (data.extent(1 - contracted) + 127) / 128;
  const std::int64_t count = tiles_across * tiles_down * 512;
  if (std::ssize(scales) != count) {
    refuse("found " + std::to_string(scales.size()) + " scales for " + tensor_text(data) +
           "; valid: " + std::to_string(count) + ", in whole tiles of 512 scales");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t index[] = {static_cast<std::int64_t>(i) / columns,
                                  static_cast<std::int64_t>(i) % columns};
    const std::int64_t row = index[1 - contracted];
    const std::int64_t column = index[contracted] / block;
    const std::int64_t tile = row / 128 * tiles_across + column / 4;
    values[i] *= scales[to_index(tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4)];
  }
  return values;
}

LocalResult run_scaled_product(const LocalCall& local, const OpKernel&) {
  const auto inputs = operands(local, 4);
  const std::string name = local.call.text_arg(0, to_string(inputs[0].dtype()));
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype || !holds_data(*dtype)) {
    throw InputError(local.call.op + ": found the output dtype \"" + name +
                     "\"; valid: " + data_dtype_names());
  }
  std::vector<HostTensor> scaled;
  for (const std::size_t i : {0U, 1U}) {
    scaled.push_back(
        from_doubles(local.memory, DType::kF64, inputs[i].shape(), scaled_matrix(local, i)));
  }
  return result_of(local, *dtype,
                   multiply(EinsumEquation::parse("mk,kn->mn"), scaled, local.call, local.memory));
}

// -- _grouped_mm ----------------------------------------------------------------------------------

// The part of a tensor that one group multiplies: one matrix of a stack, or some rows of `dim`.
HostTensor part_of(const LocalCall& local, const HostTensor& tensor, int dim, std::int64_t group,
                   std::int64_t begin, std::int64_t end) {
  if (tensor.ndim() == 3) {
    return tensor.narrow_rows(group, 1).reshape({tensor.extent(1), tensor.extent(2)});
  }
  return dim < 0 ? tensor : narrow(local.memory, tensor, dim, begin, end - begin);
}

LocalResult run_grouped_product(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 2, 3);
  const HostTensor& a = local.inputs[0];
  const HostTensor& b = local.inputs[1];
  const auto refuse = [&](const std::string& what) {
    throw InputError(local.call.op + ": " + what);
  };
  const bool fits = (a.ndim() == 2 || a.ndim() == 3) && (b.ndim() == 2 || b.ndim() == 3) &&
                    a.shape().back() == b.shape()[b.shape().size() - 2];
  const std::string both = tensor_text(a) + " and " + tensor_text(b);
  if (!fits) {
    refuse("found " + both +
           "; valid: matrices, or stacks of matrices, where the second has as many rows as the "
           "first has columns");
  }
  for (const HostTensor* matrix : {&a, &b}) {
    if (matrix->shape().back() * itemsize(matrix->dtype()) % 16 != 0) {
      refuse("found rows of " + std::to_string(matrix->shape().back() * itemsize(matrix->dtype())) +
             " bytes in " + tensor_text(*matrix) +
             "; valid: rows whose bytes are a multiple of 16");
    }
  }
  const bool lone = a.ndim() == 2 || b.ndim() == 2;
  if (lone != (local.inputs.size() == 3)) {
    refuse(lone ? "found no offsets for " + both +
                      "; valid: offsets, which say where the groups of a lone matrix end"
                : "found offsets for " + both +
                      "; valid: none, because each matrix of two stacks is a group");
  }
  std::vector<double> ends;
  if (lone) ends = as_doubles(local.inputs[2]);
  const std::int64_t groups = a.ndim() == 3   ? a.extent(0)
                              : b.ndim() == 3 ? b.extent(0)
                                              : std::ssize(ends);
  if ((lone && std::ssize(ends) != groups) || (b.ndim() == 3 && b.extent(0) != groups)) {
    refuse(lone ? "found " + std::to_string(ends.size()) + " offsets for " + both +
                      "; valid: " + std::to_string(groups) + ", one for each matrix of the stack"
                : "found " + both + "; valid: stacks of as many matrices");
  }
  // The dim of a lone matrix that the offsets cut; -1 for a stack of matrices.
  const bool stacked = a.ndim() == b.ndim();
  const int cut_a = a.ndim() == 3 ? -1 : b.ndim() == 3 ? 0 : 1;
  const int cut_b = b.ndim() == 3 ? -1 : a.ndim() == 3 ? 1 : 0;
  const std::int64_t rows = a.shape()[a.shape().size() - 2];
  const std::int64_t columns = b.shape().back();
  Product product;
  product.shape = {rows, columns};
  if (stacked) product.shape.insert(product.shape.begin(), groups);
  product.values = filled(local, product.shape);
  const std::int64_t most = cut_a == 0 ? rows : cut_b == 1 ? columns : a.shape().back();
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int64_t end = 0;
    if (lone) {
      const double offset = ends[to_index(g)];
      if (!(offset >= 0.0 && offset <= static_cast<double>(most))) {
        refuse("found the offset " + format_double(offset) + "; valid: 0 to " +
               std::to_string(most));
      }
      end = std::max(begin, static_cast<std::int64_t>(offset));
    }
    const HostTensor parts[] = {part_of(local, a, cut_a, g, begin, end),
                                part_of(local, b, cut_b, g, begin, end)};
    const Product part =
        multiply(EinsumEquation::parse("mk,kn->mn"), parts, local.call, local.memory);
    const std::int64_t first_row = cut_a == 0 ? begin : 0;
    const std::int64_t first_column = cut_b == 1 ? begin : 0;
    for (std::int64_t r = 0; r < part.shape[0]; ++r) {
      for (std::int64_t c = 0; c < part.shape[1]; ++c) {
        const std::int64_t flat =
            ((stacked ? g * rows : 0) + first_row + r) * columns + first_column + c;
        product.values[to_index(flat)] = part.values[to_index(r * part.shape[1] + c)];
      }
    }
    begin = end;
  }
  return result_of(local, a.dtype(), product);
}

// Arguments: einsum(equation, inputs).
LocalResult run_einsum(const LocalCall& local, const OpKernel&) {
  if (local.call.args.empty() || !local.call.args[0].is_string()) {
    throw InputError(local.call.op + ": --args must begin with the equation");
  }
  const EinsumEquation equation = EinsumEquation::parse(local.call.args[0].get<std::string>());
  expect_inputs(local, equation.inputs().size(), equation.inputs().size());
  const Product product = multiply(equation, local.inputs, local.call, local.memory);
  return {{from_doubles(local.memory, local.inputs[0].dtype(), product.shape, product.values)}, {}};
}

constexpr OpKernel kKernels[] = {
    {.name = "_grouped_mm", .run = run_grouped_product},
    {.name = "_scaled_mm", .run = run_scaled_product},
    {.name = "addmm", .run = run_biased_product<"mk,kn->mn">},
    {.name = "baddbmm", .run = run_biased_product<"bmk,bkn->bmn">},
    {.name = "bmm", .run = run_product<"bmk,bkn->bmn">},
    {.name = "dot", .run = run_product<"i,i->">},
    {.name = "einsum", .run = run_einsum},
    {.name = "mm", .run = run_product<"mk,kn->mn">},
    {.name = "mv", .run = run_product<"mk,k->m">},
};

}  // namespace matmul_kernels

OP_KERNELS(matmul){matmul_kernels::kKernels};

}  // namespace shardlab
