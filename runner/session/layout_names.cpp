#include "runner/session/layout_names.h"

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "runner/session/command.h"
#include "sim/placement_text.h"

namespace shardlab {
namespace {

// A layout in short form, of however many mesh dims.
Layout parse_any_layout(std::string_view text) {
  for (int mesh_ndim = 0; mesh_ndim < kMaxMeshDims; ++mesh_ndim) {
    try {
      return Layout::parse(text, mesh_ndim);
    } catch (const TextError&) {
      continue;
    }
  }
  return Layout::parse(text, kMaxMeshDims);
}

}  // namespace

std::string LayoutNames::of(const Placement& placement) const {
  return torch_ ? torch_text(placement) : placement.text();
}

std::string LayoutNames::of(const Layout& layout) const {
  return torch_ ? torch_text(layout) : layout.text();
}

std::string LayoutNames::of(const TensorSpec& tensor) const {
  return tensor.meta.text() + " " + of(tensor.layout);
}

std::string LayoutNames::of(const OpCall& call) const {
  if (!torch_) return call.text();
  std::string out = call.op + "(";
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorArg& arg = call.inputs[i];
    if (i > 0) out += ", ";
    if (arg.is_absent()) out += "none";
    if (arg.is_list) out += "[";
    const std::size_t count = arg.given.empty() ? arg.tensors.size() : arg.given.size();
    for (std::size_t j = 0, next = 0; j < count; ++j) {
      const bool is_given = arg.given.empty() || arg.given[j];
      out += (j > 0 ? "; " : "") + (is_given ? of(arg.tensors[next++]) : "none");
    }
    if (arg.is_list) out += "]";
  }
  for (const nlohmann::json& arg : call.args) out += ", " + arg.dump();
  return out + ")";
}

std::string LayoutNames::change(const Placement& from, const Placement& to) const {
  return of(from) + (torch_ ? " -> " : "->") + of(to);
}

std::string LayoutNames::path(const Plan& plan) const {
  if (!torch_) return plan.path();
  std::string out = torch_text(plan.start, true);
  for (const PlanStep& step : plan.steps) {
    out += (step.is_merged() ? "\n  --> " : "\n  -> ") + torch_text(step.after, true);
  }
  return out;
}

std::string LayoutNames::of_texts(std::string_view texts) const {
  if (!torch_ || texts.empty()) return std::string(texts);
  std::string out;
  for (std::string_view rest = texts;;) {
    const std::size_t comma = rest.find(", ");
    try {
      out += torch_text(parse_any_layout(rest.substr(0, comma)));
    } catch (const TextError&) {
      return std::string(texts);
    }
    if (comma == std::string_view::npos) return out;
    out += ", ";
    rest = rest.substr(comma + 2);
  }
}

std::vector<std::string> LayoutNames::of_texts(const std::vector<std::string>& texts) const {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(of_texts(text));
  return out;
}

void add_torch_names_option(const Command& command, Session& session) {
  command.flag("--torch-names", session.torch_names,
               "write layouts in text as PyTorch does: (Shard(dim=0), Replicate())");
}

}  // namespace shardlab
