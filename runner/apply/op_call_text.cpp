#include "runner/apply/op_call_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/apply/python_text.h"
#include "strategies/rules/op_call.h"
#include "strategies/rules/op_schemas.h"

namespace shardlab::apply {
namespace {

using Kind = SchemaArgument::Kind;

template <std::size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool cuts(const Placement& p, int dim) { return p.is_shard_like() && p.dim() == dim; }

bool shards(const Layout& layout) {
  return std::ranges::any_of(layout.placements,
                             [](const Placement& p) { return p.is_shard_like(); });
}

bool shards_dim(const Layout& layout, int dim) {
  return std::ranges::any_of(layout.placements, [&](const Placement& p) { return cuts(p, dim); });
}

// "ranks.rows(1000, 0, 1)": the rows that this rank holds of a dim, which are neighbours.
std::string rows_text(const NodeToWrite& node, const ReadTensor& tensor, int dim) {
  std::string text = "ranks.rows(" + std::to_string(tensor.meta.shape[to_index(dim)]);
  Layout layout = tensor.layout;
  if (layout.has_strided()) {
    const std::optional<Layout> decoded = decode_strided_as_order(layout, node.mesh);
    if (!decoded) {
      throw InputError(node.node.op + ": found a table in " + layout.text() +
                       ", of which a rank's rows are no neighbours; valid: plain shards");
    }
    layout = *decoded;
  }
  for (const int m : layout.mesh_dims_of(dim)) text += ", " + std::to_string(m);
  return text + ")";
}

// The arguments of a call, one by one, in the order of the schema.
struct Argument {
  const SchemaArgument* of = nullptr;
  std::string text;
};

class Call {
 public:
  explicit Call(const NodeToWrite& node)
      : node_(node), name_(split_op_name(node.node.op)), schema_(find_op_schema(node.node.op)) {}

  CallText text() {
    if (name_.base == "einsum") return einsum();
    if (!schema_ || schema_->writes) {
      throw InputError(
          "found " + node_.node.op +
          ", an operator without a schema; valid: operators of ATen (PyTorch 2.13) that "
          "change none of their arguments");
    }
    collect();
    CallText result;
    if (const std::string lookup = lookup_call(); !lookup.empty()) {
      return {.call = lookup, .uses_lookups = true};
    }
    localize();
    result.call = function(result) + "(" + arguments_text() + ")";
    result.is_list = schema_->results > 1 || node_.node.outputs.size() > 1;
    if (result.is_list && schema_->results > node_.node.outputs.size() && !result.uses_attention) {
      result.call = "tensors(" + result.call + ")";
    }
    if (is_random()) {
      result.call = "ranks.drawn(" + placements_text(node_.outputs[0].placements) +
                    ", lambda: " + result.call + ")";
    } else if (cuts_result()) {
      result.call = "ranks.cut_all(" + result.call + ", " +
                    placements_text(node_.outputs[0].placements) + ")";
    }
    return result;
  }

 private:
  CallText einsum() const {
    std::vector<std::string> parts = {python_value(node_.node.args.at(0))};
    for (const ReadTensor& tensor : node_.tensors) parts.push_back(tensor.variable);
    return {.call = "torch.einsum(" + join(parts, ", ") + ")"};
  }

  // The next of the program's tensor arguments, as text.
  std::string next_input() {
    const ProgramInput& input = node_.node.inputs[input_++];
    if (!input.is_list) {
      if (input.values.empty()) return "None";
      return node_.tensors[tensor_++].variable;
    }
    std::vector<std::string> parts;
    const std::size_t positions = input.given.empty() ? input.values.size() : input.given.size();
    for (std::size_t i = 0; i < positions; ++i) {
      const bool given = input.given.empty() || input.given[i];
      parts.push_back(given ? node_.tensors[tensor_++].variable : "None");
    }
    return "[" + join(parts, ", ") + "]";
  }

  void collect() {
    const nlohmann::json& args = node_.node.args;
    std::size_t next = 0;
    for (const SchemaArgument& argument : schema_->arguments) {
      Argument& made = arguments_.emplace_back(Argument{&argument, ""});
      if (argument.is_tensor() && input_ < node_.node.inputs.size()) {
        made.text = next_input();
        continue;
      }
      // An optional tensor at the end may be left out; a number may stand where a tensor could.
      if (argument.kind == Kind::kOptionalTensor) {
        made.text = "None";
        continue;
      }
      const nlohmann::json value = next < args.size() ? args[next] : nlohmann::json(nullptr);
      ++next;
      if (value.is_null()) {
        made.text = argument.fallback.empty() ? "None" : std::string(argument.fallback);
      } else if (argument.kind == Kind::kDType && value.is_string()) {
        const std::optional<DType> dtype = dtype_from_name(value.get<std::string>());
        if (!dtype) throw InputError("found the dtype " + value.dump());
        made.text = python_dtype(*dtype);
      } else {
        made.text = python_value(value);
      }
    }
  }

  Argument* find(std::string_view name) {
    for (Argument& argument : arguments_) {
      if (argument.of->name == name) return &argument;
    }
    return nullptr;
  }

  const ReadTensor* tensor(std::size_t i) const {
    return i < node_.tensors.size() ? &node_.tensors[i] : nullptr;
  }

  // A lookup in a table whose rows are sharded; "" for all other calls.
  std::string lookup_call() {
    const bool embeds = name_.base == "embedding";
    if (!embeds && name_.base != "gather" && name_.base != "index_select") return "";
    const ReadTensor& table = node_.tensors.at(0);
    int dim = 0;
    if (!embeds)
      dim = normalize_dim(node_.node.args.at(0).get<std::int64_t>(), table.meta.ndim(),
                          node_.node.op);
    if (!shards_dim(table.layout, dim)) return "";
    const std::string rows = rows_text(node_, table, dim);
    const std::string& indices = node_.tensors.at(1).variable;
    if (embeds) return "lookup(" + table.variable + ", " + indices + ", " + rows + ")";
    return std::string(name_.base) + "(" + table.variable + ", " + std::to_string(dim) + ", " +
           indices + ", " + rows + ")";
  }

  // Arguments that speak of a whole tensor get what this rank holds.
  void localize() {
    static constexpr std::string_view kShapes[] = {"size", "shape", "input_sizes"};
    if (node_.outputs.empty()) return;
    const Layout& out = node_.outputs[0];
    const Shape& shape = node_.node.outputs[0].shape;
    const bool views =
        name_.base == "view" || name_.base == "_unsafe_view" || name_.base == "view_copy";
    if (name_.base == "as_strided" && shards(out)) {
      throw InputError("found " + node_.node.op + " in " + out.text() +
                       ", whose strides are those of a whole tensor; valid: replicated");
    }
    for (Argument& argument : arguments_) {
      if (!is_one_of(argument.of->name, kShapes) || argument.text == "None") continue;
      if (shards(out) || views) argument.text = local_shape_text(shape, out, node_.mesh);
    }
    if (Argument* size = find("output_size"); size != nullptr && shards(out)) localize_size(*size);
    if (Argument* device = find("device"); device != nullptr && node_.tensors.empty()) {
      device->text = "ranks.device";
    }
    if (name_.base.starts_with("native_group_norm")) localize_group_norm();
    if (name_.base.starts_with("convolution")) localize_convolution();
  }

  // The last dims of the result, of which an output_size speaks.
  void localize_size(Argument& size) {
    const auto listed = static_cast<int>(std::count(size.text.begin(), size.text.end(), ',')) + 1;
    const int ndim = node_.node.outputs[0].ndim();
    bool cut = false;
    for (int d = ndim - listed; d < ndim; ++d) cut = cut || shards_dim(node_.outputs[0], d);
    if (!cut) return;
    size.text = local_shape_text(node_.node.outputs[0].shape, node_.outputs[0], node_.mesh) + "[-" +
                std::to_string(listed) + ":]";
  }

  // How many channels stand for one group does not depend on how the channels are cut.
  std::string groups_text(const std::string& groups, const ReadTensor& input) const {
    const std::int64_t channels = input.meta.shape[1];
    if (!shards_dim(input.layout, 1) || groups == "1") return groups;
    return groups + " * " + input.variable + ".shape[1] // " + std::to_string(channels);
  }

  void localize_group_norm() {
    const bool is_backward = name_.base.ends_with("backward");
    const ReadTensor& input = node_.tensors.at(is_backward ? 1 : 0);
    if (!shards(input.layout)) return;
    find("N")->text = input.variable + ".shape[0]";
    find("C")->text = input.variable + ".shape[1]";
    find("HxW")->text = "math.prod(" + input.variable + ".shape[2:])";
    find("group")->text = groups_text(find("group")->text, input);
  }

  void localize_convolution() {
    const bool is_backward = name_.base == "convolution_backward";
    const ReadTensor& input = node_.tensors.at(is_backward ? 1 : 0);
    if (Argument* groups = find("groups")) groups->text = groups_text(groups->text, input);
    if (!is_backward) return;
    const ReadTensor& gradient = node_.tensors.at(0);
    Argument* sizes = find("bias_sizes");
    if (sizes->text != "None" && shards_dim(gradient.layout, 1)) {
      sizes->text = "[" + gradient.variable + ".shape[1]]";
    }
  }

  std::string function(CallText& result) const {
    static constexpr std::pair<std::string_view, std::string_view> kAttention[] = {
        {"_scaled_dot_product_flash_attention", "flash_attention"},
        {"_scaled_dot_product_flash_attention_backward", "flash_attention_backward"},
        {"_scaled_dot_product_efficient_attention", "efficient_attention"},
        {"_scaled_dot_product_efficient_attention_backward", "efficient_attention_backward"}};
    for (const auto& [op, own] : kAttention) {
      if (name_.base != op) continue;
      result.uses_attention = true;
      return std::string(own);
    }
    // A view of a whole tensor need not be one of a part of it, which may lie in other strides.
    if (name_.base == "view" && node_.node.op == "aten.view.default") return "aten.reshape.default";
    return node_.node.op;
  }

  std::string arguments_text() const {
    std::vector<std::string> parts;
    std::size_t last = 0;  // behind the last argument by position that is not at its default
    std::size_t position = 0;
    for (const Argument& argument : arguments_) {
      if (argument.of->only_by_name) break;
      ++position;
      if (argument.text != argument.of->fallback) last = position;
    }
    for (std::size_t i = 0; i < last; ++i) parts.push_back(arguments_[i].text);
    for (const Argument& argument : arguments_) {
      if (!argument.of->only_by_name || argument.text == argument.of->fallback) continue;
      parts.push_back(std::string(argument.of->name) + "=" + argument.text);
    }
    return join(parts, ", ");
  }

  [[nodiscard]] bool is_random() const {
    static constexpr std::string_view kRandom[] = {"native_dropout",
                                                   "bernoulli",
                                                   "rand",
                                                   "randn",
                                                   "rand_like",
                                                   "randn_like",
                                                   "randint",
                                                   "randint_like",
                                                   "normal",
                                                   "uniform",
                                                   "multinomial",
                                                   "poisson",
                                                   "exponential",
                                                   "geometric",
                                                   "log_normal",
                                                   "cauchy",
                                                   "normal_functional",
                                                   "randperm",
                                                   "rrelu_with_noise_functional"};
    return is_one_of(name_.base, kRandom);
  }

  // Whether a tensor that is made from numbers is made whole, and then cut.
  [[nodiscard]] bool cuts_result() const {
    static constexpr std::string_view kOfAnyShape[] = {"full", "zeros", "ones", "empty",
                                                       "empty_permuted"};
    return node_.tensors.empty() && !node_.outputs.empty() && shards(node_.outputs[0]) &&
           !is_one_of(name_.base, kOfAnyShape);
  }

  const NodeToWrite& node_;
  OpName name_;
  std::optional<OpSchema> schema_;
  std::vector<Argument> arguments_;
  std::size_t input_ = 0;
  std::size_t tensor_ = 0;
};

}  // namespace

CallText op_call_text(const NodeToWrite& node) { return Call(node).text(); }

std::string local_shape_text(const Shape& shape, const Layout& layout, const DeviceMesh& mesh) {
  bool even = true;
  for (const Placement& p : layout.placements) {
    if (p.is_shard_like()) {
      even = even && is_evenly_shardable_on_dim(shape, layout.placements, mesh, p.dim());
    }
  }
  if (even) return python_list(largest_local_shape(shape, layout.placements, mesh));
  return "ranks.shape(" + python_list(shape) + ", " + placements_text(layout.placements) + ")";
}

}  // namespace shardlab::apply
