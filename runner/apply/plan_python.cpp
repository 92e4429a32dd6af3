#include "runner/apply/plan_python.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "runner/apply/embedded.h"
#include "runner/apply/op_call_text.h"
#include "runner/apply/python_text.h"
#include "strategies/programs/program_graph.h"

namespace shardlab::apply {
namespace {

constexpr std::size_t kWidth = 110;

std::string text_of(EmbeddedFile file) {
  std::string text;
  for (const std::string_view piece : file) text += piece;
  return text;
}

// One line of forward() or backward(), and what it needs.
struct Line {
  std::string target;  // the variables that it sets, as they stand left of the "="
  std::string value;
  std::string comment;
  std::vector<std::string> reads;
  std::vector<std::string> sets;
  std::string heading = {};  // a comment line in front
};

// Breaks a call into lines at the commas between its arguments.
std::string broken(const std::string& indent, const std::string& head, const std::string& value) {
  const std::size_t bracket = value.find('(');
  if (bracket == std::string::npos || !value.ends_with(')')) return indent + head + value + "\n";
  std::string out = indent + head + value.substr(0, bracket + 1) + "\n";
  const std::string inner = value.substr(bracket + 1, value.size() - bracket - 2);
  std::string line = indent + "    ";
  std::string part;
  const auto put = [&] {
    if (line.size() + part.size() > kWidth && line.size() > indent.size() + 4) {
      while (line.ends_with(' ')) line.pop_back();
      out += line + "\n";
      line = indent + "    ";
    }
    line += part;
    part.clear();
  };
  for (const char c : inner) {
    if (c == ' ' && part.empty() && line.size() == indent.size() + 4) continue;
    part += c;
    if (c == ' ' && part.size() > 1 && part[part.size() - 2] == ',') put();
  }
  put();
  return out + line + "\n" + indent + ")\n";
}

class Writer {
 public:
  explicit Writer(const PlanToWrite& plan) : plan_(plan), program_(plan.program) {}

  PlanPython run() {
    mark();
    name_values();
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!is_alive_[n]) continue;
      try {
        write_node(n);
      } catch (const InputError& error) {
        throw InputError("node " + program_.nodes[n].name + ": " + error.what());
      }
    }
    written_.text = whole_text();
    return std::move(written_);
  }

 private:
  // -- Which node runs where ------------------------------------------------------------------

  // Marks what leads to a result, and what the forward pass needs.
  void mark() {
    const std::size_t count = program_.nodes.size();
    is_alive_.assign(count, false);
    in_forward_.assign(count, false);
    for (std::size_t n = count; n-- > 0;) {
      const ProgramNode& node = program_.nodes[n];
      const bool forward_result =
          node.kind == NodeKind::kOutput || node.kind == NodeKind::kBufferUpdate;
      if (node.is_source() || node.leaves()) is_alive_[n] = true;
      if (forward_result || (node.is_source() && node.kind != NodeKind::kTangent)) {
        in_forward_[n] = true;
      }
      for (const ValueRef& value : values_read(node)) {
        if (is_alive_[n]) is_alive_[value.node] = true;
        if (in_forward_[n]) in_forward_[value.node] = true;
      }
    }
    for (std::size_t n = 0; n < count; ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (in_forward_[n] && node.kind == NodeKind::kTangent) {
        throw InputError("node " + node.name +
                         ": found a tangent that an output needs; valid: one that gradients need");
      }
      if (node.kind == NodeKind::kBuffer && is_alive_[n] && is_made_in_forward(node.label)) {
        throw InputError(
            "node " + node.name +
            ": found a tensor that forward makes, whose values a program does not hold; "
            "valid: a buffer or an attribute of the module");
      }
      has_backward_ = has_backward_ || node.kind == NodeKind::kGradient;
    }
  }

  // Whether a buffer has the name that torch.fx gives a tensor that forward makes from numbers:
  // _tensor_constant0, _tensor_constant1 and so on.
  static bool is_made_in_forward(std::string_view label) {
    constexpr std::string_view kStart = "_tensor_constant";
    return label.starts_with(kStart) &&
           label.find_first_not_of("0123456789", kStart.size()) == std::string_view::npos;
  }

  // -- Names ----------------------------------------------------------------------------------

  // The part of a program's output that has a node of its own lends it its name.
  void name_values() {
    const std::size_t count = program_.nodes.size();
    variables_.resize(count);
    labels_.resize(count);
    std::vector<std::map<std::size_t, std::size_t>> parts(count);
    for (std::size_t n = 0; n < count; ++n) {
      const ProgramNode& node = program_.nodes[n];
      if (node.op != kGetItem || !is_alive_[n]) continue;
      const ValueRef value = values_read(node).at(0);
      parts[value.node].emplace(value.output, n);
    }
    for (std::size_t n = 0; n < count; ++n) {
      const ProgramNode& node = program_.nodes[n];
      variables_[n].resize(std::max<std::size_t>(node.outputs.size(), 1));
      if (node.is_source()) {
        const bool tangent = node.kind == NodeKind::kTangent;
        variables_[n][0] = names_.fresh(node.label.empty() || tangent ? node.name : node.label);
      }
      if (!node.computes() || node.op == kGetItem || node.op == kAlias) continue;
      if (node.outputs.size() == 1 && parts[n].empty()) {
        variables_[n][0] = names_.fresh(node.name);
        continue;
      }
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const auto part = parts[n].find(o);
        variables_[n][o] =
            names_.fresh(part != parts[n].end() ? program_.nodes[part->second].name
                                                : node.name + "_" + std::to_string(o));
      }
    }
  }

  // -- Steps ----------------------------------------------------------------------------------

  // How long a dim is once the shards of mesh dim m are joined; "" where they are equally long.
  std::string extent_text(const Shape& shape, const Layout& layout, int m, int dim) const {
    const std::int64_t extent = shape[to_index(dim)];
    std::int64_t rows = extent;  // what a rank holds, as long as shards are equally long
    bool even = true;
    std::vector<std::string> before;
    bool strided = false;
    for (const int each : layout.mesh_dims_of(dim)) {
      const Placement& p = layout[each];
      // A mesh dim cuts what those before it left, and so does the factor of a strided shard.
      const std::int64_t factor = p.is_strided() ? p.split_factor() : 1;
      even = even && rows % saturating_product(plan_.mesh.size(each), factor) == 0;
      if (even) rows /= plan_.mesh.size(each);
      strided = strided || (p.is_strided() && each != m);
      if (each == m) break;
      before.push_back(std::to_string(each));
    }
    if (even) return "";
    if (strided) {
      throw InputError("found uneven strided shards, " + layout.text() +
                       "; valid: ones that divide the tensor");
    }
    if (before.empty()) return ", extent=" + std::to_string(extent);
    return ", extent=len(ranks.rows(" + std::to_string(extent) + ", " + join(before, ", ") + "))";
  }

  static std::string factor_text(const Placement& p) {
    return p.is_strided() ? ", factor=" + std::to_string(p.split_factor()) : "";
  }
  static std::string op_text(const Placement& p) {
    const bool sum = p.reduce_op() == ReduceOp::kSum;
    return sum ? "" : ", op=\"" + std::string(to_string(p.reduce_op())) + "\"";
  }

  void expect_reduction(const Placement& p) const {
    static_cast<void>(placements_text(Placements{p}));
    const ReduceOp op = p.reduce_op();
    if (op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor) {
      throw InputError("found " + p.text() + "; valid: P(sum), P(avg), P(max), P(min), P(product)");
    }
  }

  // The calls that run one step on the variable: mostly one.
  std::vector<std::pair<Collective, std::string>> step_calls(const PlanStep& step,
                                                             const Layout& before,
                                                             const Shape& shape,
                                                             const std::string& place) {
    if (step.is_merged()) {
      throw InputError("found a step on a flattened mesh; valid: a mesh without flattened dims");
    }
    const int m = step.mesh_dims.front();
    const Placement& from = step.from;
    const Placement& to = step.to;
    if (from.is_registered() || to.is_registered()) {
      throw InputError("found a step from " + from.text() + " to " + to.text() +
                       "; valid: placements that PyTorch has, and so no registered ones");
    }
    const std::string over = ", " + std::to_string(m);
    const auto dim = [](const Placement& p) { return ", " + std::to_string(p.dim()); };
    const auto all_gather = [&] {
      return std::pair(Collective::kAllGather, "all_gather(@" + over + dim(from) +
                                                   extent_text(shape, before, m, from.dim()) +
                                                   factor_text(from) + ")");
    };
    const auto cut = [&] {
      return std::pair(Collective::kLocal, "cut(@" + over + dim(to) + factor_text(to) + ")");
    };
    if (from.is_partial()) {
      expect_reduction(from);
      if (to.is_replicate()) {
        return {{Collective::kAllReduce, "all_reduce(@" + over + op_text(from) + ")"}};
      }
      if (to.is_shard_like()) {
        return {{Collective::kReduceScatter,
                 "reduce_scatter(@" + over + dim(to) + op_text(from) + factor_text(to) + ")"}};
      }
    } else if (from.is_replicate()) {
      if (to.is_shard_like()) return {cut()};
      if (to.is_partial()) {
        expect_reduction(to);
        return {{Collective::kLocal, "part(@" + over + op_text(to) + ")"}};
      }
    } else if (to.is_replicate()) {
      return {all_gather()};
    } else if (from.is_shard() && to.is_shard() && from.dim() != to.dim()) {
      return {{Collective::kAllToAll, "all_to_all(@" + over + dim(from) + dim(to) +
                                          extent_text(shape, before, m, from.dim()) + ")"}};
    } else if (to.is_shard_like()) {
      written_.notes.push_back(place + ": " + from.text() + " to " + to.text() +
                               " runs as an all-gather and a cut");
      return {all_gather(), cut()};
    }
    throw InputError("found a step from " + from.text() + " to " + to.text() +
                     ", which no collective does");
  }

  // Writes the steps of a move, and returns the variable that has the result.
  std::string write_move(std::size_t n, std::size_t input, const std::string& variable,
                         const Plan& move, bool in_backward) {
    if (!move.refusal().empty()) {
      throw InputError("input " + std::to_string(input) + ", " + move.from.text() + " to " +
                       move.to.text() + ": " + move.refusal());
    }
    std::string current = variable;
    Layout before = move.start;
    for (const PlanStep& step : move.steps) {
      const std::string place =
          "node " + program_.nodes[n].name + ", input " + std::to_string(input);
      for (const auto& [collective, call] : step_calls(step, before, move.meta.shape, place)) {
        std::string text = "ranks." + call;
        text.replace(text.find('@'), 1, current);
        const std::string name =
            moved_name(variable + "_" + name_of_layout(step.after), in_backward);
        lines(in_backward)
            .push_back({.target = name,
                        .value = text,
                        .comment = before.text() + " to " + step.after.text(),
                        .reads = {current},
                        .sets = {name}});
        current = name;
        if (collective != Collective::kLocal && plan_.mesh.size(step.mesh_dims.front()) > 1) {
          written_.steps.push_back({.node = n,
                                    .input = input,
                                    .in_backward = in_backward,
                                    .collective = collective,
                                    .mesh_dim = step.mesh_dims.front(),
                                    .from = before.text(),
                                    .to = step.after.text()});
        }
      }
      before = step.after;
    }
    return current;
  }

  // A value in one layout has one name in each pass, though it may be made for several readers.
  std::string moved_name(const std::string& wanted, bool in_backward) {
    const auto [it, is_new] = moved_names_.try_emplace({wanted, in_backward});
    if (is_new) it->second = names_.fresh(wanted);
    return it->second;
  }

  // -- Nodes ----------------------------------------------------------------------------------

  std::vector<Line>& lines(bool in_backward) { return in_backward ? backward_ : forward_; }

  std::string described(const TensorMeta& meta, const Layout& layout) const {
    TensorMeta plain = meta;
    plain.strides.clear();
    return plain.text() + " " + layout.text();
  }

  // The label of a source or result, and another where the program has none.
  std::string label_of(std::size_t n) const {
    const ProgramNode& node = program_.nodes[n];
    return node.label.empty() ? node.name : node.label;
  }

  void write_node(std::size_t n) {
    const ProgramNode& node = program_.nodes[n];
    const NodePlan& plan = plan_.plans[n];
    const bool in_backward = !in_forward_[n];
    if (node.is_source()) {
      sources_.push_back(n);
      return;
    }
    std::vector<ReadTensor> tensors;
    const std::vector<ValueRef> values = values_read(node);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const ValueRef& value = values[i];
      const std::string variable =
          write_move(n, i, variables_[value.node][value.output], plan.moves[i], in_backward);
      tensors.push_back(
          {variable, program_.nodes[value.node].outputs[value.output], plan.moves[i].to});
    }
    if (node.leaves() || node.op == kAlias || node.op == kGetItem) {
      variables_[n][0] = tensors.at(0).variable;
      if (node.leaves()) results_.push_back(n);
      return;
    }
    const CallText call = op_call_text(
        {.node = node, .mesh = plan_.mesh, .tensors = tensors, .outputs = plan.outputs});
    uses_lookups_ = uses_lookups_ || call.uses_lookups;
    uses_attention_ = uses_attention_ || call.uses_attention;
    std::vector<std::string> sets(
        variables_[n].begin(),
        variables_[n].begin() + static_cast<std::ptrdiff_t>(node.outputs.size()));
    std::vector<std::string> comments;
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      comments.push_back(described(node.outputs[o], plan.outputs[o]));
    }
    Line line{.target = join(sets, ", "),
              .value = call.call,
              .comment = join(comments, "; "),
              .reads = {},
              .sets = sets};
    if (call.is_list && sets.size() == 1) line.target = "[" + line.target + "]";
    for (const ReadTensor& tensor : tensors) line.reads.push_back(tensor.variable);
    std::string& heading = headings_[in_backward ? 1 : 0];
    if (node.label != heading && !node.label.empty()) line.heading = heading = node.label;
    lines(in_backward).push_back(std::move(line));
  }

  // -- The file -------------------------------------------------------------------------------

  using Named = std::vector<std::pair<std::string, std::size_t>>;

  // The nodes of a kind with the keys that they have in the file.
  Named named(NodeKind kind) const {
    Named found;
    for (const std::size_t n :
         kind == NodeKind::kOutput || kind == NodeKind::kGradient || kind == NodeKind::kBufferUpdate
             ? results_
             : sources_) {
      if (program_.nodes[n].kind == kind) found.emplace_back(label_of(n), n);
    }
    if (kind == NodeKind::kOutput) name_outputs(found);
    std::set<std::string> taken;
    for (const auto& [label, n] : found) {
      if (!taken.insert(label).second) {
        throw InputError("found two nodes of kind " + std::string(to_string(kind)) + " named " +
                         label + "; valid: different names");
      }
    }
    return found;
  }

  void name_outputs(Named& outputs) const {
    for (const auto& [label, n] : outputs) {
      if (program_.nodes[n].label.empty()) continue;
      if (!label.starts_with("output")) {
        throw InputError("node " + program_.nodes[n].name + ": found a new value of the input " +
                         label +
                         ", which forward changes in place; valid: a forward that leaves "
                         "its inputs as they are");
      }
      return;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].first = outputs.size() == 1 ? "output" : "output[" + std::to_string(i) + "]";
    }
  }

  std::string layout_text(std::size_t n) const {
    const TensorMeta& meta = program_.nodes[n].outputs[0];
    return "Layout(" + python_tuple(meta.shape) + ", " + python_dtype(meta.dtype) + ", " +
           placements_text(plan_.plans[n].outputs[0].placements) + ")";
  }

  std::string table_text(const std::string& name, const Named& rows) const {
    if (rows.empty()) return name + " = {}\n";
    std::string text = name + " = {\n";
    for (const auto& [label, n] : rows) {
      text += "    " + python_string(label) + ": " + layout_text(n) + ",\n";
    }
    return text + "}\n";
  }

  static std::string line_text(const Line& line) {
    const std::string indent = "    ";
    std::string text = line.heading.empty() ? "" : indent + "# " + printable(line.heading) + "\n";
    const std::string code = indent + line.target + " = " + line.value;
    if (code.size() + line.comment.size() + 4 <= kWidth) {
      return text + code + "  # " + line.comment + "\n";
    }
    text += indent + "# " + line.comment + "\n";
    return text +
           (code.size() <= kWidth ? code + "\n" : broken(indent, line.target + " = ", line.value));
  }

  // The lines of a function, with a `del` behind the last reader of each variable.
  std::string body_text(const std::vector<Line>& lines, const std::set<std::string>& kept,
                        const std::set<std::string>& given) const {
    std::map<std::string, std::size_t> last;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      for (const std::string& name : lines[i].sets) last[name] = i;
      for (const std::string& name : lines[i].reads) last[name] = i;
    }
    std::string text;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      text += line_text(lines[i]);
      std::vector<std::string> done;
      const auto drop = [&](const std::string& name) {
        const bool again = std::ranges::find(done, name) != done.end();
        if (last[name] == i && !kept.contains(name) && !given.contains(name) && !again) {
          done.push_back(name);
        }
      };
      for (const std::string& name : lines[i].reads) drop(name);
      for (const std::string& name : lines[i].sets) drop(name);
      if (!done.empty()) text += wrapped("    del ", done);
    }
    return text;
  }

  // "    del a, b, c" on as many lines as it takes.
  static std::string wrapped(const std::string& head, const std::vector<std::string>& words) {
    std::string text;
    std::string line = head;
    for (const std::string& word : words) {
      if (line.size() + word.size() + 2 > kWidth && line != head) {
        text += line + "\n";
        line = head;
      }
      line += (line == head ? "" : ", ") + word;
    }
    return text + line + "\n";
  }

  std::string tuple_text(const std::string& indent, const std::vector<std::string>& words) const {
    if (words.empty()) return "()";
    std::string text = "(\n";
    std::string line = indent + "    ";
    for (const std::string& word : words) {
      if (line.size() + word.size() + 2 > kWidth) {
        while (line.ends_with(' ')) line.pop_back();
        text += line + "\n";
        line = indent + "    ";
      }
      line += word + ", ";
    }
    while (line.ends_with(' ')) line.pop_back();
    return text + line + "\n" + indent + ")";
  }

  std::string dict_text(const Named& rows) const {
    std::string text = "{\n";
    for (const auto& [label, n] : rows) {
      text += "        " + python_string(label) + ": " + variables_[n][0] + ",\n";
    }
    return rows.empty() ? "{}" : text + "    }";
  }

  // Lines that read a source from its table, where `reads` has it.
  std::string sources_text(const std::set<std::string>& reads) const {
    std::string text;
    for (const auto& [kind, table] : {std::pair{NodeKind::kParameter, "parameters"},
                                      {NodeKind::kBuffer, "buffers"},
                                      {NodeKind::kInput, "inputs"}}) {
      for (const auto& [label, n] : named(kind)) {
        if (!reads.contains(variables_[n][0])) continue;
        text += "    " + variables_[n][0] + " = " + table + "[" + python_string(label) + "]  # " +
                described(program_.nodes[n].outputs[0], plan_.plans[n].outputs[0]) + "\n";
      }
    }
    return text;
  }

  // Which source a gradient belongs to.
  std::size_t owner_of(std::size_t gradient) const {
    for (const auto& [first, second] : program_.pairs) {
      if (second == gradient) return first;
    }
    for (const std::size_t n : sources_) {
      const ProgramNode& node = program_.nodes[n];
      if (node.kind != NodeKind::kTangent && !node.label.empty() &&
          node.label == program_.nodes[gradient].label) {
        return n;
      }
    }
    throw InputError("node " + program_.nodes[gradient].name +
                     ": found a gradient of nothing; valid: one that a pair ties to a parameter or "
                     "an input");
  }

  std::string whole_text() {
    const Named outputs = named(NodeKind::kOutput);
    if (outputs.empty()) throw InputError("found a program without outputs");
    std::string tangents_text = "TANGENTS = {}\n";
    std::string take_tangents;
    if (has_backward_) {
      Named tangents;
      for (const auto& [label, n] : outputs) {
        for (const auto& [first, second] : program_.pairs) {
          if (first == n && program_.nodes[second].kind == NodeKind::kTangent) {
            tangents.emplace_back(label, second);
          }
        }
      }
      const Named all = named(NodeKind::kTangent);
      if (tangents.size() != all.size()) {
        throw InputError("found " + std::to_string(all.size()) + " tangents, of which pairs tie " +
                         std::to_string(tangents.size()) + " to outputs; valid: all of them");
      }
      tangents_text = table_text("TANGENTS", tangents);
      for (const auto& [label, n] : tangents) {
        take_tangents += "    " + variables_[n][0] + " = tangents[" + python_string(label) +
                         "]  # " +
                         described(program_.nodes[n].outputs[0], plan_.plans[n].outputs[0]) + "\n";
      }
    }
    std::string text = head_text();
    text += table_text("PARAMETERS", named(NodeKind::kParameter));
    text += table_text("BUFFERS", named(NodeKind::kBuffer));
    const Named inputs = named(NodeKind::kInput);
    text += table_text("INPUTS", inputs);
    const bool labelled = std::ranges::all_of(
        inputs, [&](const auto& each) { return !program_.nodes[each.second].label.empty(); });
    text += std::string("INPUTS_HAVE_NAMES = ") + (labelled ? "True" : "False") + "\n";
    text += table_text("OUTPUTS", outputs) + tangents_text;
    text += functions_text(outputs, take_tangents);
    text += "\n\n" + text_of(embedded_runtime());
    if (uses_lookups_) text += text_of(embedded_lookups());
    if (uses_attention_) text += text_of(embedded_attention());
    text += text_of(has_backward_ ? embedded_step() : embedded_forward_only());
    return text + text_of(embedded_apply());
  }

  std::string functions_text(const Named& outputs, const std::string& take_tangents) {
    const auto read_by = [](const std::vector<Line>& lines) {
      std::set<std::string> names;
      for (const Line& line : lines) names.insert(line.reads.begin(), line.reads.end());
      return names;
    };
    std::set<std::string> forward_reads = read_by(forward_);
    std::set<std::string> backward_reads = read_by(backward_);
    std::set<std::string> made_in_backward;
    for (const Line& line : backward_) {
      made_in_backward.insert(line.sets.begin(), line.sets.end());
    }
    Named of_parameters;
    Named of_inputs;
    for (const auto& [label, n] : named(NodeKind::kGradient)) {
      const std::size_t owner = owner_of(n);
      const bool parameter = program_.nodes[owner].kind == NodeKind::kParameter;
      (parameter ? of_parameters : of_inputs).emplace_back(label_of(owner), n);
      backward_reads.insert(variables_[n][0]);
    }
    const Named updates = named(NodeKind::kBufferUpdate);
    for (const auto& table : {outputs, updates}) {
      for (const auto& [label, n] : table) forward_reads.insert(variables_[n][0]);
    }
    // What the forward pass keeps for the backward pass, in the order in which it is made.
    std::vector<std::string> saved;
    std::set<std::string> kept;
    const auto save = [&](const std::string& name) {
      if (backward_reads.contains(name) && !made_in_backward.contains(name) &&
          std::ranges::find(saved, name) == saved.end()) {
        saved.push_back(name);
      }
    };
    std::set<std::string> given;
    for (const std::size_t n : sources_) {
      given.insert(variables_[n][0]);
      if (program_.nodes[n].kind != NodeKind::kTangent) save(variables_[n][0]);
    }
    for (const Line& line : forward_) {
      for (const std::string& name : line.sets) save(name);
    }
    kept.insert(saved.begin(), saved.end());
    for (const auto& table : {outputs, updates}) {
      for (const auto& [label, n] : table) kept.insert(variables_[n][0]);
    }
    std::set<std::string> reads = forward_reads;
    reads.insert(saved.begin(), saved.end());
    std::string text = "\n\ndef forward(ranks, parameters, buffers, inputs):\n";
    text += has_backward_
                ? "    \"\"\"Outputs, new values of buffers, and what backward() needs, from what "
                  "this rank holds.\"\"\"\n"
                : "    \"\"\"Outputs and new values of buffers, from what this rank holds.\"\"\"\n";
    text += sources_text(reads) + body_text(forward_, kept, given);
    text += "    outputs = " + dict_text(outputs) + "\n    updates = " + dict_text(updates) + "\n";
    if (!has_backward_) return text + "    return outputs, updates\n";
    text += "    saved = " + tuple_text("    ", saved) + "\n    return outputs, updates, saved\n";
    text +=
        "\n\ndef backward(ranks, saved, tangents):\n"
        "    \"\"\"The gradients of parameters and of inputs.\"\"\"\n";
    if (!saved.empty()) text += "    " + tuple_text("    ", saved) + " = saved\n";
    text += take_tangents;
    std::set<std::string> results;
    for (const auto& table : {of_parameters, of_inputs}) {
      for (const auto& [label, n] : table) results.insert(variables_[n][0]);
    }
    text += body_text(backward_, results, {});
    text += "    of_parameters = " + dict_text(of_parameters) +
            "\n    of_inputs = " + dict_text(of_inputs) + "\n    return of_parameters, of_inputs\n";
    return text;
  }

  std::string head_text() const {
    std::map<Collective, std::int64_t> counts[2];
    for (const WrittenStep& step : written_.steps) {
      ++counts[step.in_backward ? 1 : 0][step.collective];
    }
    const auto counted = [&](int pass) {
      std::vector<std::string> parts;
      for (const auto& [collective, count] : counts[pass]) {
        parts.push_back(std::to_string(count) + " " + std::string(to_string(collective)));
      }
      return parts.empty() ? std::string("no collectives") : join(parts, ", ");
    };
    Shape sizes;
    for (int m = 0; m < plan_.mesh.ndim(); ++m) sizes.push_back(plan_.mesh.size(m));
    std::string text =
        "\"\"\"" + text_in_docstring(program_.name) + " on a mesh of " + plan_.mesh.text() +
        ", sharded by a plan.\n\n"
        "Written by `shardlab apply " +
        text_in_docstring(plan_.program_name) + " --plan " + text_in_docstring(plan_.plan_name) +
        "`.\nIt needs PyTorch 2.13 or newer, and nothing else.\n\n"
        "    mesh = torch.distributed.device_mesh.init_device_mesh(\"cuda\", " +
        python_tuple(sizes) +
        ")\n"
        "    apply(model, mesh)                 # parameters and buffers become DTensors\n"
        "    optimizer = torch.optim.AdamW(model.parameters())\n"
        "    loss = loss_of(model(inputs))      # inputs: the same on every rank, or DTensors\n"
        "    loss.backward()                    # gradients are DTensors in the layout of their "
        "parameter\n\n"
        "forward() and backward() are the plan: one line per operator, on the tensors that this "
        "rank holds, and one\n"
        "line per step of each move. The collectives are " +
        counted(0) +
        " in\n"
        "the forward pass and " +
        counted(1) +
        " in the backward pass (steps by\n"
        "the stack " +
        text_in_docstring(plan_.stack) +
        "). An input, or a gradient that the loss "
        "hands in, that comes as a DTensor in another\nlayout than the plan's is first brought "
        "into the plan's, "
        "which no plan counts.\n";
    for (const std::string& note : written_.notes) {
      text += "\nNot as planned: " + text_in_docstring(note) + ".\n";
    }
    text +=
        "\"\"\"\n\nimport collections.abc\nimport copy\nimport dataclasses\nimport inspect\nimport "
        "math\nimport re\n"
        "from typing import NamedTuple\n\nimport torch\nimport torch.distributed as dist\n"
        "from torch import nn\nfrom torch.distributed.tensor import DTensor, Partial, Replicate, "
        "Shard\n"
        "from torch.distributed.tensor.placement_types import _StridedShard\n\n"
        "aten = torch.ops.aten\nMESH = " +
        python_tuple(sizes) +
        "\n\n\nclass Layout(NamedTuple):\n    \"\"\"A whole tensor, and how it lies on the "
        "mesh.\"\"\"\n\n"
        "    shape: tuple\n    dtype: torch.dtype\n    placements: list\n\n\n";
    return text;
  }

  static std::string text_in_docstring(std::string_view text) {
    std::string out = printable(text);
    for (char& c : out) {
      if (c == '\\' || c == '"') c = '\'';
    }
    return out;
  }

  const PlanToWrite& plan_;
  const Program& program_;
  std::vector<bool> is_alive_;
  std::vector<bool> in_forward_;
  bool has_backward_ = false;
  bool uses_lookups_ = false;
  bool uses_attention_ = false;
  PythonNames names_;
  std::map<std::pair<std::string, bool>, std::string> moved_names_;
  std::vector<std::vector<std::string>> variables_;  // by node and output
  std::vector<std::string> labels_;
  std::vector<std::size_t> sources_;
  std::vector<std::size_t> results_;
  std::vector<Line> forward_;
  std::vector<Line> backward_;
  std::string headings_[2];
  PlanPython written_;
};

}  // namespace

PlanPython plan_python(const PlanToWrite& plan) { return Writer(plan).run(); }

}  // namespace shardlab::apply
