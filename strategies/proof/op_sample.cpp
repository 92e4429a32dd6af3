#include "strategies/proof/op_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "strategies/rules/op_schemas.h"
#include "strategies/rules/pointwise.h"

namespace shardlab {
namespace {

// Takes the text up to a separator, and the separator itself, off the front of `text`.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part, " ");
}

class SampleReader {
 public:
  explicit SampleReader(const OpSample& sample, int mesh_ndim)
      : sample_(sample), layout_(Layout::replicated(mesh_ndim)) {}

  SampleCall read() {
    SampleCall result;
    result.call.op = sample_.op;
    result.call.args = nlohmann::json::parse(sample_.args);
    std::string_view rest = sample_.inputs;
    while (!rest.empty()) {
      std::string_view text = take_until(rest, '|');
      TensorArg& arg = result.call.inputs.emplace_back();
      arg.is_list = text.starts_with('[');
      if (arg.is_list) {
        if (!text.ends_with(']')) fail("found a list without its closing ]");
        text = text.substr(1, text.size() - 2);
        while (!text.empty()) {
          arg.given.push_back(add(arg, take_until(text, ';'), result));
        }
        if (arg.tensors.size() == arg.given.size()) arg.given.clear();
      } else {
        add(arg, text, result);
      }
    }
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw InputError("sample of " + std::string(sample_.op) + " \"" + std::string(sample_.inputs) +
                     "\": " + std::string(what));
  }

  // Adds one tensor to the argument. Returns false if the text is "none".
  bool add(TensorArg& arg, std::string_view text, SampleCall& result) const {
    if (text == "none") return false;
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) fail("found a tensor without its closing ]");
    arg.tensors.push_back({TensorMeta::parse(text.substr(0, end + 1)), layout_});
    std::string_view words = trimmed(text.substr(end + 1), " ");
    SampleCall::Values& values = result.values.emplace_back();
    if (words.empty()) return true;
    const std::string_view word = take_until(words, ' ');
    const std::optional<SampleValues> kind = from_name<SampleValues>(word);
    if (!kind)
      fail("found the values \"" + std::string(word) +
           "\"; valid: below N, unique N, distinct, few, positive, unit");
    values.kind = *kind;
    if (values.kind == SampleValues::kBelow || values.kind == SampleValues::kUnique) {
      TextCursor cursor("sample", words);
      values.limit = cursor.integer("a limit", 1, 1 << 20);
    } else if (!words.empty()) {
      fail("found \"" + std::string(words) + "\" after " + std::string(word) + "; valid: nothing");
    }
    return true;
  }

  const OpSample& sample_;
  Layout layout_;
};

// The tensors of pointwise ops: one list for each number of tensors. Some are broadcast.
constexpr std::array<std::array<std::string_view, 3>, 3> kOperands = {{
    {"f32[4,6]", "f32[5]", "f32[]"},
    {"f32[4,6] | f32[4,6]", "f32[6,5] | f32[5]", "f32[4,1] | f32[4,6]"},
    {"f32[4,6] | f32[4,6] | f32[4,6]", "f32[6,4] | f32[1,4] | f32[6,1]", "f32[5] | f32[5] | f32[]"},
}};

Shape shape_of(const OpCall& call, std::string_view op) {
  const auto tensors = call.tensors();
  return broadcast_shape({tensors.data(), tensors.size()}, op);
}

// Whether the op's rule accepts the call. The rule is that of the set shardlab or, if it has none,
// of another set.
bool is_taken(const OpCall& call) {
  const OpRule* taker = nullptr;
  for (const OpRuleFamily* family : all_op_rules()) {
    for (const OpRule& rule : family->rules) {
      if (rule.op == call.op && (taker == nullptr || rule.sets.contains(kShardlab))) taker = &rule;
    }
  }
  if (taker == nullptr) return false;
  try {
    static_cast<void>(taker->outputs(call));
    return true;
  } catch (const InputError&) {
    return false;
  }
}

// Adds the tensor that an out= op writes to.
void add_out_tensor(SampleCall& sample, const OpKernel& kernel, const Shape& common) {
  TensorArg out = sample.call.inputs[0];
  TensorMeta& meta = out.tensors[0].meta;
  meta.shape = common;
  if (kernel.result == OpKernel::Result::kTruth) meta.dtype = DType::kB8;
  if (kernel.result == OpKernel::Result::kDouble) meta.dtype = DType::kF64;
  sample.call.inputs.push_back(out);
  sample.values.emplace_back();
}

// Makes the call of a pointwise op on these tensors. The remaining operands are numbers, the first
// of which is `number`. Returns nothing if the op does not accept the call.
std::optional<SampleCall> pointwise_call(std::string_view op, const OpKernel& kernel,
                                         std::string_view tensors, double number, int mesh_ndim) {
  const OpRule named{.op = op};
  const bool whole = kernel.result == OpKernel::Result::kInteger;
  const bool truth = kernel.result == OpKernel::Result::kTruth;
  SampleCall sample = read_sample({op, tensors}, mesh_ndim);
  std::vector<TensorArg>& inputs = sample.call.inputs;
  const std::size_t count = inputs.size();
  const Shape common = shape_of(sample.call, op);
  for (TensorArg& input : inputs) {
    if (whole) input.tensors[0].meta.dtype = DType::kI32;
    if (is_foreach(named.op)) input.is_list = true;
  }
  if (kernel.result == OpKernel::Result::kAsSecond) inputs[0].tensors[0].meta.dtype = DType::kB8;
  if (kernel.name == "masked_fill") inputs.back().tensors[0].meta.dtype = DType::kB8;
  if (named.is_in_place() && inputs[0].tensors[0].meta.shape != common) return std::nullopt;
  if (out_tensors_of(op) > 0) add_out_tensor(sample, kernel, common);
  if (truth) {
    for (SampleCall::Values& values : sample.values) values.kind = SampleValues::kFew;
  }
  // The kernel's last operand may be one that this overload lacks, as foreach_add.Scalar lacks an
  // alpha.
  const std::optional<OpSchema> schema = find_op_schema(op);
  const std::size_t operands =
      schema ? std::min(kernel.operands, schema->arguments.size()) : kernel.operands;
  for (std::size_t i = count; i < operands; ++i) {
    double each = number + 2.5 * static_cast<double>(i - count);
    if (truth) each = number > 0.0 ? 1.0 : 0.0;
    nlohmann::json argument = each;
    if (whole) argument = std::abs(std::llround(each));
    // One number for each tensor of the lists, which have one here.
    if (op.ends_with(".ScalarList")) argument = nlohmann::json::array({argument});
    sample.call.args.push_back(std::move(argument));
  }
  return is_taken(sample.call) ? std::optional(std::move(sample)) : std::nullopt;
}

// The kernel of a pointwise op says how many operands it has. Of these, as many as possible are
// tensors, and the rest are numbers.
std::vector<SampleCall> pointwise_calls(std::string_view op, const OpKernel& kernel,
                                        int mesh_ndim) {
  std::vector<SampleCall> calls;
  std::size_t tensors = std::min<std::size_t>(kernel.operands, 3);
  // The last operand of these overloads is a number, whatever the rule accepts.
  const bool ends_in_number = op.find("_foreach_") != std::string_view::npos &&
                              (op.ends_with(".Scalar") || op.ends_with(".ScalarList"));
  if (ends_in_number && tensors == kernel.operands && tensors > 1) --tensors;
  for (; tensors > 0 && calls.empty(); --tensors) {
    for (const std::string_view operands : kOperands[tensors - 1]) {
      for (const double number : {2.0, -1.5}) {
        std::optional<SampleCall> call = pointwise_call(op, kernel, operands, number, mesh_ndim);
        if (!call) continue;
        calls.push_back(std::move(*call));
        if (tensors == kernel.operands) break;  // there is no number to vary
      }
    }
  }
  return calls;
}

}  // namespace

SampleCall read_sample(const OpSample& sample, int mesh_ndim) {
  return SampleReader(sample, mesh_ndim).read();
}

std::vector<SampleCall> sample_calls_of(std::string_view op, int mesh_ndim) {
  std::vector<SampleCall> calls;
  for (const OpSampleFamily* family : all_op_samples()) {
    for (const OpSample& sample : family->samples) {
      if (sample.op == op) calls.push_back(read_sample(sample, mesh_ndim));
    }
  }
  const OpKernel* kernel = find_op_kernel(op);
  if (!calls.empty() || kernel == nullptr || kernel->element == nullptr) return calls;
  return pointwise_calls(op, *kernel, mesh_ndim);
}

}  // namespace shardlab
