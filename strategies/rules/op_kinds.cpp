#include "strategies/rules/op_kinds.h"

#include <algorithm>
#include <vector>

#include "costmodel/base/error.h"
#include "strategies/rules/embedded.h"
#include "strategies/rules/op_call.h"

namespace shardlab {
namespace {

// The lines of the file, sorted.
const std::vector<std::string>& all_lines() {
  static const std::vector<std::string> lines = lines_of(embedded_op_kinds());
  return lines;
}

// The line of the file that begins with `start`; empty if there is none.
std::string_view line_that_starts(const std::string& start) {
  const std::vector<std::string>& lines = all_lines();
  const auto it = std::ranges::lower_bound(lines, start);
  return it != lines.end() && it->starts_with(start) ? std::string_view(*it) : std::string_view();
}

// A line has the name of the operator, such as "unfold" or "add.Tensor", and a letter for each
// release, oldest first.
AtenOp op_of(std::string_view line, Release release) {
  const std::size_t blank = line.find(' ');
  const std::string_view letters = line.substr(blank + 1);
  SHARDLAB_CHECK(letters.size() == kReleases.size(), "op_kinds.txt: \"", line, "\" has ",
                 letters.size(), " letters for ", kReleases.size(), " releases");
  AtenOp op;
  op.name = "aten." + std::string(line.substr(0, blank));
  if (line.substr(0, blank).find('.') == std::string_view::npos) op.name += ".default";
  // A release after the newest has the letters of the newest.
  const std::size_t column = std::min(static_cast<std::size_t>(release), letters.size() - 1);
  op.kind = static_cast<OpKind>(letters[column]);
  return op;
}

std::string torch_of(Release release) { return "PyTorch " + std::string(torch_version(release)); }

// What the handler of an op does (torch/distributed/tensor/_dispatch.py).
std::string_view handler_of(std::string_view name) {
  if (name == "aten.as_strided.default") {
    return ", which returns the tensor itself if it is asked for its own size, stride and offset, "
           "and otherwise raises \"as_strided not supported with DTensor\"";
  }
  if (name == "aten.is_pinned.default") return ", which asks the local tensor";
  return "";
}

}  // namespace

std::optional<AtenOp> find_aten_op(std::string_view op, Release release) {
  const OpName name = split_op_name(op);
  const std::string base(name.base);
  if (base.empty()) return std::nullopt;
  std::string_view line;
  if (name.overload.empty() || name.overload == "default") {
    line = line_that_starts(base + " ");
    if (line.empty() && name.overload.empty()) line = line_that_starts(base + ".");
  } else {
    line = line_that_starts(base + "." + std::string(name.overload) + " ");
  }
  if (line.empty()) return std::nullopt;
  return op_of(line, release);
}

std::vector<AtenOp> aten_ops_of(OpKind kind, Release release) {
  std::vector<AtenOp> ops;
  for (const std::string& line : all_lines()) {
    AtenOp op = op_of(line, release);
    if (op.kind == kind) ops.push_back(std::move(op));
  }
  return ops;
}

std::string why_no_rule(const AtenOp& op, Release release) {
  const std::string none = "has no sharding rule, and DTensor of " + torch_of(release) +
                           " has no strategy for it either";
  const std::string error = "NotImplementedError (\"Operator " + op.name +
                            " does not have a sharding strategy registered.\")";
  switch (op.kind) {
    case OpKind::kComposite:
      return "has no sharding rule, since PyTorch runs other ops in its place";
    case OpKind::kHandled:
      return "has no sharding rule, since DTensor runs a handler of its own for it" +
             std::string(handler_of(op.name));
    case OpKind::kStrategy:
      return "has no sharding rule, although DTensor of " + torch_of(release) +
             " has a strategy for it, which shardlab does not know";
    case OpKind::kDataDependent:
      return none + ": the shape of its result depends on the data, and the propagation fails";
    case OpKind::kDecomposed:
      return none +
             ": it runs the strategies of the steps that the op decomposes into, and where "
             "one of them has none it raises " +
             error;
    case OpKind::kNone:
      return none + ": it raises " + error;
    case OpKind::kAbsent:
      return "has no sharding rule, and " + torch_of(release) +
             " has no such op, although another release has";
  }
  throw ContractError("an op kind without words");
}

}  // namespace shardlab
