#include "tests/support/dtensor_golden.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <memory>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "strategies/select/evaluator.h"
#include "tests/support/shipped.h"

namespace shardlab::testing_support {
namespace {

using nlohmann::json;

// How far shardlab's costs may be from PyTorch's. Most are equal bit for bit.
constexpr double kRelative = 1e-12;

bool close(double a, double b) {
  return a == b || std::abs(a - b) <= kRelative * std::max(std::abs(a), std::abs(b));
}

double cost_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

// A release's stack as it is, with the graph planner, or without merging.
enum class Variant : std::uint8_t { kShipped, kGraph, kUnmerged };

// The evaluators of one release's stack, by (variant, devices per host).
class Evaluators {
 public:
  explicit Evaluators(const json& file)
      : stack_(shipped_stack(std::string(release_of(file).rule_set))) {}

  StackEvaluator& get(Variant variant, const json& c) {
    const auto devices_per_host = c.at("devices_per_host").get<std::int64_t>();
    auto& slot = evaluators_[{variant, devices_per_host}];
    if (!slot) {
      Stack stack = stack_;
      if (variant == Variant::kGraph) stack.redistribution.planner = PlannerKind::kGraph;
      if (variant == Variant::kUnmerged) stack.redistribution.merge = MergeMode::kOff;
      slot = std::make_unique<StackEvaluator>(stack, h100(devices_per_host));
    }
    return *slot;
  }
  Redistributor& on(Variant variant, const json& c, const DeviceMesh& mesh) {
    return get(variant, c).on(mesh);
  }

 private:
  Stack stack_;
  std::map<std::pair<Variant, std::int64_t>, std::unique_ptr<StackEvaluator>> evaluators_;
};

DeviceMesh mesh_of(const json& c) {
  DeviceMesh mesh = DeviceMesh::parse(c.at("mesh").get<std::string>());
  for (const json& flat : c.value("flatten", json::array())) {
    std::vector<std::string> names;
    std::string rest = flat.get<std::string>();
    for (std::size_t comma = rest.find(','); comma != std::string::npos; comma = rest.find(',')) {
      names.push_back(rest.substr(0, comma));
      rest = rest.substr(comma + 1);
    }
    names.push_back(rest);
    mesh = mesh.flatten(names);
  }
  return mesh;
}

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape)
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

// [mesh_dim or [mesh_dims], "from", "to", [logical shape], avg_scale] as one line.
std::string step_text(const json& step) {
  std::string dims = step[0].is_array() ? step[0].dump() : "[" + step[0].dump() + "]";
  std::string text =
      dims + step[1].get<std::string>() + ">" + step[2].get<std::string>() + step[3].dump();
  if (step.size() > 4 && !step[4].is_null()) text += "/" + step[4].dump();
  return text;
}
std::string step_text(const PlanStep& step) {
  std::string dims;
  for (const int dim : step.mesh_dims) dims += (dims.empty() ? "" : ",") + std::to_string(dim);
  std::string text =
      "[" + dims + "]" + step.from.text() + ">" + step.to.text() + shape_text(step.logical_shape);
  if (step.avg_scale > 1) text += "/" + std::to_string(step.avg_scale);
  return text;
}

template <class Steps>
std::string steps_text(const Steps& steps) {
  std::string text;
  for (const auto& step : steps) text += step_text(step) + " ";
  return text;
}

std::vector<std::string> texts(const json& list) { return list.get<std::vector<std::string>>(); }

std::string joined_layouts(const std::vector<Placements>& layouts) {
  std::string text;
  for (const Placements& placements : layouts) {
    text += (text.empty() ? "" : ";") + Layout(placements).text();
  }
  return text;
}

std::string joined(const std::vector<std::string>& layouts) { return join(layouts, ";"); }

// One selection (an op, or one element of a tensor list) against PyTorch's.
void compare_selection(const json& expected, const Selection& got, bool ordered,
                       const std::string& where, GoldenReport& report) {
  const auto differ = [&](const std::string& what, const std::string& want,
                          const std::string& have) {
    report.differences.push_back(where + ": " + what + ": PyTorch " + want + ", shardlab " + have);
  };
  if (got.candidates.size() != expected.at("candidates").get<std::size_t>()) {
    differ("candidates", expected.at("candidates").dump(), std::to_string(got.candidates.size()));
    return;
  }
  std::vector<std::string> lines;
  for (const Candidate& c : got.candidates) {
    lines.push_back(joined_layouts(c.inputs) + "|" + joined_layouts(c.outputs));
  }
  std::vector<std::size_t> by_text(lines.size());
  for (std::size_t i = 0; i < by_text.size(); ++i) by_text[i] = i;
  if (!ordered) {
    std::sort(by_text.begin(), by_text.end(),
              [&](std::size_t a, std::size_t b) { return lines[a] < lines[b]; });
  }
  std::string all;
  for (const std::size_t i : by_text) all += (all.empty() ? "" : "\n") + lines[i];
  if (expected.contains("list")) {
    std::vector<std::string> want = texts(expected["list"]);
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::size_t blank = want[i].find(' ');
      const Candidate& have = got.candidates[by_text[i]];
      if (want[i].substr(0, blank) != lines[by_text[i]]) {
        differ("candidate " + std::to_string(i), want[i].substr(0, blank), lines[by_text[i]]);
        continue;
      }
      std::string rest = want[i].substr(blank + 1) + ";";
      for (const double cost : have.redistribute_us) {
        const std::string text = rest.substr(0, rest.find(';'));
        rest = rest.substr(rest.find(';') + 1);
        const double wanted =
            text == "inf" ? std::numeric_limits<double>::infinity() : std::stod(text);
        if (!close(wanted, cost)) differ("cost of " + want[i], text, format_double(cost));
      }
    }
  }
  if (fnv1a(all) != expected.at("digest").get<std::string>()) {
    differ("the strategy set", expected.at("digest").get<std::string>(), all.substr(0, 300));
  }
  if (!expected.at("chosen").is_null()) {
    const std::string want = joined(texts(expected["chosen"]["inputs"])) + "|" +
                             joined(texts(expected["chosen"]["outputs"]));
    const std::string have =
        joined_layouts(got.choice.inputs) + "|" + joined_layouts(got.choice.outputs);
    if (want != have) differ("choice", want, have);
  }
  if (!close(cost_of(expected.at("total_us")), got.choice.total_us)) {
    differ("total", expected["total_us"].dump(), format_double(got.choice.total_us));
  }
}

}  // namespace

const ReleaseEntry& release_of(const json& file) {
  const std::string torch = file.at("torch").get<std::string>();
  const auto* const entry =
      std::find_if(kReleases.begin(), kReleases.end(),
                   [&](const ReleaseEntry& release) { return release.torch == torch; });
  if (entry == kReleases.end()) {
    std::string valid;
    for (const ReleaseEntry& release : kReleases) {
      valid += (valid.empty() ? "" : ", ") + std::string(release.torch);
    }
    throw InputError("found answers of PyTorch " + torch + "; valid: " + valid);
  }
  return *entry;
}

std::string fnv1a(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4U) hex[i] = kDigits[hash & 15U];
  return hex;
}

void GoldenReport::add(GoldenReport more) {
  compared += more.compared;
  skipped += more.skipped;
  std::move(more.differences.begin(), more.differences.end(), std::back_inserter(differences));
}

GoldenReport compare_costs(const json& file) {
  GoldenReport report;
  Evaluators evaluators(file);
  for (const json& c : file.at("cases")) {
    const DeviceMesh mesh = mesh_of(c);
    const TensorMeta meta = TensorMeta::parse(c.at("tensor").get<std::string>());
    const Layout from = parse_layout(c.at("from").get<std::string>(), mesh.ndim(), meta);
    const Layout to = parse_layout(c.at("to").get<std::string>(), mesh.ndim(), meta);
    for (const auto& [variant, key] :
         {std::pair(Variant::kShipped, "greedy"), std::pair(Variant::kGraph, "graph")}) {
      const std::string name(key);
      if (!c.contains(name + "_us")) {
        ++report.skipped;
        continue;
      }
      ++report.compared;
      Redistributor& redistributor = evaluators.on(variant, c, mesh);
      const double want = cost_of(c[name + "_us"]);
      const double have = redistributor.cost_us(meta, from, to);
      const Plan plan = redistributor.plan(meta, from, to);
      if (!close(want, have)) {
        report.differences.push_back(c.dump() + ": " + name + ": shardlab " + format_double(have));
      }
      if (!(have == plan.price.total.value())) {
        report.differences.push_back(c.dump() + ": " + name + ": cost_us " + format_double(have) +
                                     " but plan " + format_double(plan.price.total.value()));
      }
    }
  }
  return report;
}

GoldenReport compare_plans(const json& file) {
  GoldenReport report;
  Evaluators evaluators(file);
  for (const json& c : file.at("cases")) {
    const DeviceMesh mesh = mesh_of(c);
    const TensorMeta meta = TensorMeta::parse(c.at("tensor").get<std::string>());
    const Layout from = parse_layout(c.at("from").get<std::string>(), mesh.ndim(), meta);
    const Layout to = parse_layout(c.at("to").get<std::string>(), mesh.ndim(), meta);
    const auto differ = [&](const std::string& what, const std::string& have) {
      report.differences.push_back(c.dump() + ": " + what + ": shardlab " + have);
    };
    Redistributor& redistributor = evaluators.on(Variant::kShipped, c, mesh);
    Redistributor& bare = evaluators.on(Variant::kUnmerged, c, mesh);
    const std::int64_t rank = c.at("rank").get<std::int64_t>();
    for (const std::string name : {"greedy", "graph"}) {
      if (!c.contains(name)) {
        ++report.skipped;
        continue;
      }
      ++report.compared;
      PlanOptions options;
      options.rank = rank;
      options.planner = name == "greedy" ? PlannerKind::kGreedy : PlannerKind::kGraph;
      const Plan plan = bare.plan(meta, from, to, options);
      if (name == "greedy") {
        if (steps_text(c[name]) != steps_text(plan.steps)) differ("greedy", steps_text(plan.steps));
      } else if (c.contains("graph_us") && !c["graph_us"].is_null()) {
        // Cheapest plans must cost the same. If there is only one such path, shardlab must take
        // PyTorch's.
        Redistributor& graph = evaluators.on(Variant::kGraph, c, mesh);
        options.count_optimal_paths = true;
        const Plan counted = graph.plan(meta, from, to, options);
        if (!close(cost_of(c["graph_us"]), counted.price.total.value())) {
          differ("graph cost", format_double(counted.price.total.value()));
        }
        if (!from.has_strided() && !to.has_strided() &&
            steps_text(c[name]) != steps_text(plan.steps)) {
          differ("graph", steps_text(plan.steps));
        }
        if (c.contains("graph_path") && c["graph_path"] != plan.path()) {
          differ("graph path", plan.path());
        }
      }
      const std::string merged = name == "greedy" ? "merged" : "graph_merged";
      if (!c.contains(merged)) continue;
      const Plan whole = redistributor.plan(meta, from, to, options);
      if (steps_text(c[merged]) != steps_text(whole.steps)) differ(merged, steps_text(whole.steps));
      if (c.contains(merged + "_path") && c[merged + "_path"] != whole.path()) {
        differ(merged + " path", whole.path());
      }
      std::vector<std::string> reasons;
      for (const MergeWarning& warning : whole.warnings) reasons.push_back(warning.reason);
      const std::string key = name == "greedy" ? "warnings" : "graph_warnings";
      if (c.value(key, json::array()) != json(reasons)) differ(key, json(reasons).dump());
    }
  }
  return report;
}

GoldenReport compare_selections(const json& file) {
  GoldenReport report;
  Evaluators evaluators(file);
  for (const json& c : file.at("cases")) {
    const DeviceMesh mesh = mesh_of(c);
    OpCall call{.op = c.at("op").get<std::string>(), .inputs = {}, .args = c.at("args")};
    for (const json& input : c.at("inputs")) {
      call.inputs.push_back(OpCall::parse_input(input.get<std::string>(), mesh.ndim()));
    }
    std::string where = call.text() + " on " + mesh.text() + ", " +
                        c.at("devices_per_host").dump() + " devices a host";
    StackEvaluator& evaluator = evaluators.get(Variant::kShipped, c);
    ++report.compared;
    try {
      const bool ordered = c.value("order", "") != "unspecified";
      if (c.contains("children")) {
        for (std::size_t i = 0; i < c["children"].size(); ++i) {
          compare_selection(c["children"][i], evaluator.select(foreach_child(call, i), mesh),
                            c["children"][i].value("order", "") != "unspecified" && ordered,
                            where + " child " + std::to_string(i), report);
        }
        continue;
      }
      // The first element of a list that is refused.
      const bool foreach = is_foreach(find_op_rule(call.op, release_of(file).release).op);
      for (std::size_t i = 0; foreach && i < foreach_size(call); ++i) {
        static_cast<void>(evaluator.select(foreach_child(call, i), mesh));
      }
      const Selection got = foreach ? Selection() : evaluator.select(call, mesh);
      if (c.contains("error")) {
        report.differences.push_back(where + ": PyTorch refuses: " + c["error"].dump());
        continue;
      }
      compare_selection(c, got, ordered, where, report);
    } catch (const InputError& error) {
      // Both refuse. If the reason is that the op works in place, both say it in the same words.
      constexpr std::string_view kInPlace =
          "in-place operations that require placement changes are not supported";
      const std::string theirs = c.value("error", "");
      const bool in_place = theirs.find(kInPlace) != std::string::npos;
      const bool ours_in_place = std::string(error.what()).find(kInPlace) != std::string::npos;
      const bool both = !theirs.empty() && in_place == ours_in_place;
      if (!both) report.differences.push_back(where + ": shardlab refuses: " + error.what());
    }
  }
  return report;
}

}  // namespace shardlab::testing_support
