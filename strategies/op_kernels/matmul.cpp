// Matrix products: any einsum equation of one or two inputs, as one batched product.
#include "costmodel/error.h"
#include "sim/tensor_kernels.h"
#include "strategies/einsum.h"
#include "strategies/op_kernel.h"

namespace shardlab {
namespace {

// Letters and their extents.
struct Letters {
  std::string text;
  Shape extents;
  [[nodiscard]] std::int64_t product() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents) {
      product = extent == 0 ? 0 : saturating_product(product, extent);
    }
    return product;
  }
};

// The input's elements in row-major order of these letters; a letter that the input lacks repeats
// them.
std::vector<double> arranged(const std::vector<double>& values, const std::string& own,
                             const Shape& shape, const Letters& letters) {
  const Shape strides = row_major_strides(shape);
  Shape step(letters.text.size(), 0);
  for (std::size_t i = 0; i < step.size(); ++i) {
    const std::size_t at = own.find(letters.text[i]);
    if (at != std::string::npos) step[i] = strides[at];
  }
  std::vector<double> out(static_cast<std::size_t>(letters.product()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (std::size_t d = step.size(); d-- > 0;) {
      place += rest % letters.extents[d] * step[d];
      rest /= letters.extents[d];
    }
    out[i] = values[static_cast<std::size_t>(place)];
  }
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
    const std::size_t at = a.find(letter);
    return at != std::string::npos ? shapes[0][at] : shapes[1][b.find(letter)];
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
  // From batch, rows, columns to the output's order of letters.
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

template <Text kEquation>
LocalResult run_product(const LocalCall& local, const OpKernel&) {
  const EinsumEquation equation = EinsumEquation::parse(kEquation.text);
  expect_inputs(local, equation.inputs().size(), equation.inputs().size());
  const Product product = multiply(equation, local.inputs, local.call, local.memory);
  return {{from_doubles(local.memory, local.inputs[0].dtype(), product.shape, product.values)}, {}};
}

// The bias is broadcast and added.
template <Text kEquation>
LocalResult run_biased_product(const LocalCall& local, const OpKernel&) {
  expect_inputs(local, 3, 3);
  Product product = multiply(EinsumEquation::parse(kEquation.text), local.inputs.subspan(1),
                             local.call, local.memory);
  const HostTensor& bias = local.inputs[0];
  bool broadcasts = bias.shape().size() <= product.shape.size();
  for (std::size_t d = 0; broadcasts && d < bias.shape().size(); ++d) {
    const std::int64_t extent = product.shape[product.shape.size() - bias.shape().size() + d];
    broadcasts = bias.shape()[d] == 1 || bias.shape()[d] == extent;
  }
  if (!broadcasts) throw InputError(local.call.op + ": the bias does not broadcast to the product");
  const std::vector<double> values = as_doubles(bias);
  const Shape strides = row_major_strides(bias.shape());
  const std::size_t missing = product.shape.size() - bias.shape().size();
  for (std::size_t i = 0; i < product.values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t place = 0;
    for (std::size_t d = product.shape.size(); d-- > 0;) {
      const std::int64_t index = rest % product.shape[d];
      rest /= product.shape[d];
      if (d >= missing && bias.shape()[d - missing] != 1) place += index * strides[d - missing];
    }
    product.values[i] += values[static_cast<std::size_t>(place)];
  }
  return {{from_doubles(local.memory, bias.dtype(), product.shape, product.values)}, {}};
}

// --args: the equation.
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
    {.name = "addmm", .run = run_biased_product<"mk,kn->mn">},
    {.name = "baddbmm", .run = run_biased_product<"bmk,bkn->bmn">},
    {.name = "bmm", .run = run_product<"bmk,bkn->bmn">},
    {.name = "dot", .run = run_product<"i,i->">},
    {.name = "einsum", .run = run_einsum},
    {.name = "mm", .run = run_product<"mk,kn->mn">},
    {.name = "mv", .run = run_product<"mk,k->m">},
};

}  // namespace

OP_KERNELS(matmul){kKernels};

}  // namespace shardlab
