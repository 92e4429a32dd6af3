#include "strategies/steps/model_blocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "costmodel/base/index.h"
#include "sim/tensor_spec.h"
#include "strategies/programs/program_graph.h"

namespace shardlab {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char each) { return each >= '0' && each <= '9'; });
}

// "layers.3" for "layers.3.attention.wq"; nothing if no part of the label is a number.
std::optional<std::string_view> block_name(std::string_view label) {
  std::size_t begin = 0;
  while (begin < label.size()) {
    const std::size_t end = std::min(label.find('.', begin), label.size());
    if (is_number(label.substr(begin, end - begin))) return label.substr(0, end);
    begin = end + 1;
  }
  return std::nullopt;
}

// Numbers names in the order in which they first occur.
class Names {
 public:
  explicit Names(std::vector<std::string>& names) : names_(names) {}
  int number(std::string_view name) {
    const auto [known, is_new] =
        numbers_.try_emplace(std::string(name), static_cast<int>(names_.size()));
    if (is_new) names_.emplace_back(name);
    return known->second;
  }

 private:
  std::vector<std::string>& names_;
  std::map<std::string, int, std::less<>> numbers_;
};

class BlockFinder {
 public:
  explicit BlockFinder(const Program& program) : program_(program) {
    const std::size_t nodes = program.nodes.size();
    found_.block.assign(nodes, ModelBlocks::kOutside);
    found_.is_weight.assign(nodes, false);
    found_.carries_gradient.assign(nodes, false);
    found_.unit.assign(nodes, -1);
    depends_on_weights_.assign(nodes, false);
  }

  ModelBlocks run() && {
    find_passes();
    find_weights();
    find_blocks();
    find_gradients();
    find_units();
    return std::move(found_);
  }

 private:
  [[nodiscard]] const ProgramNode& node(std::size_t n) const { return program_.nodes[n]; }

  // What leaves the program goes with the value that it names.
  void find_passes() {
    const std::size_t nodes = program_.nodes.size();
    found_.pass.assign(nodes, Phase::kForward);
    std::vector<bool> needed(nodes, false);  // by an output
    // A program that names nothing that leaves it returns what no node of it reads.
    const bool names_results =
        std::ranges::any_of(program_.nodes, [](const ProgramNode& own) { return own.leaves(); });
    std::vector<bool> is_read(nodes, names_results);
    for (std::size_t n = nodes; n-- > 0;) {
      const ProgramNode& own = node(n);
      for (const ValueRef& value : values_read(own)) is_read[value.node] = true;
      if (!is_read[n] && own.computes()) needed[n] = true;
      const bool returns = own.kind == NodeKind::kOutput || own.kind == NodeKind::kBufferUpdate;
      if (!returns && !needed[n]) continue;
      for (const ValueRef& value : values_read(own)) needed[value.node] = true;
    }
    for (std::size_t n = 0; n < nodes; ++n) {
      const ProgramNode& own = node(n);
      if (own.phase == Phase::kBackward) found_.pass[n] = Phase::kBackward;
      if (own.computes() && !needed[n]) found_.pass[n] = Phase::kBackward;
      if (!own.leaves()) continue;
      const std::vector<ValueRef> values = values_read(own);
      if (!values.empty() && !node(values[0].node).is_source()) {
        found_.pass[n] = found_.pass[values[0].node];
      }
    }
  }

  void find_weights() {
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (node(n).kind == NodeKind::kParameter) {
        found_.is_weight[n] = true;
      } else if (node(n).computes() && node(n).phase == Phase::kForward) {
        const std::vector<ValueRef> values = values_read(node(n));
        const auto is_weight = [&](const ValueRef& value) { return found_.is_weight[value.node]; };
        const auto is_given = [&](const ValueRef& value) {
          return is_weight(value) || node(value.node).kind == NodeKind::kBuffer;
        };
        found_.is_weight[n] =
            std::ranges::any_of(values, is_weight) && std::ranges::all_of(values, is_given);
      }
    }
  }

  void find_blocks() {
    Names names(found_.names);
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      const ProgramNode& own = node(n);
      if (found_.pass[n] != Phase::kForward && !own.is_source()) continue;
      const std::string_view label = own.label;
      if (!label.empty() && own.kind != NodeKind::kInput && own.kind != NodeKind::kTangent) {
        const auto name = block_name(label);
        if (name) found_.block[n] = names.number(*name);
      } else if (!own.is_source()) {
        found_.block[n] = inherited(own);
      }
      depends_on_weights_[n] =
          found_.is_weight[n] || std::ranges::any_of(values_read(own), [&](const ValueRef& value) {
            return depends_on_weights_[value.node];
          });
    }
  }

  // The block of the weights that the node reads. If it reads none, that of the latest value which
  // depends on weights: masks and rotary positions belong to no block.
  [[nodiscard]] int inherited(const ProgramNode& own) const {
    std::optional<std::size_t> latest;
    std::optional<std::size_t> weight;
    for (const ValueRef& value : values_read(own)) {
      if (!depends_on_weights_[value.node]) continue;
      std::optional<std::size_t>& place = found_.is_weight[value.node] ? weight : latest;
      place = std::max(place.value_or(0), value.node);
    }
    const std::optional<std::size_t> from = weight ? weight : latest;
    return from ? found_.block[*from] : ModelBlocks::kOutside;
  }

  void find_gradients() {
    const ProgramGraph graph = graph_of(program_);
    for (std::size_t n = program_.nodes.size(); n-- > 0;) {
      const ProgramNode& own = node(n);
      if (own.kind == NodeKind::kGradient) {
        found_.carries_gradient[n] = true;
        continue;
      }
      if (!own.computes() || found_.pass[n] != Phase::kBackward || own.outputs.size() != 1)
        continue;
      const auto users = users_of(graph, static_cast<std::uint32_t>(n));
      const double elements = element_count(own.outputs[0].shape);
      found_.carries_gradient[n] = !users.empty() && std::ranges::all_of(users, [&](auto user) {
        return found_.carries_gradient[user];
      }) && std::ranges::all_of(values_read(own), [&](const ValueRef& value) {
        const ProgramNode& from = node(value.node);
        return found_.pass[value.node] == Phase::kBackward && !from.is_source() &&
               !found_.is_weight[value.node] &&
               element_count(from.outputs[value.output].shape) == elements;
      });
    }
  }

  void find_units() {
    Names names(found_.unit_names);
    for (std::size_t n = 0; n < program_.nodes.size(); ++n) {
      if (!found_.is_weight[n]) continue;
      if (node(n).is_source()) {
        const std::string_view label = node(n).label.empty() ? std::string_view(node(n).name)
                                                             : std::string_view(node(n).label);
        found_.unit[n] = names.number(block_name(label).value_or("root"));
        continue;
      }
      for (const ValueRef& value : values_read(node(n))) {
        found_.unit[n] = std::max(found_.unit[n], found_.unit[value.node]);
      }
    }
    for (const auto& [source, gradient] : program_.pairs) {
      if (node(gradient).kind == NodeKind::kGradient) found_.unit[gradient] = found_.unit[source];
    }
    spread_units_of_gradients();
  }

  // Goes from the gradients back along the nodes that carry them. A value that gradients of several
  // units read belongs to none of them: it is computed as other values are, before all of them.
  void spread_units_of_gradients() {
    std::vector<bool> has_unit(program_.nodes.size(), false);
    for (std::size_t n = program_.nodes.size(); n-- > 0;) {
      for (const ValueRef& value : values_read(node(n))) {
        if (!found_.carries_gradient[value.node]) continue;
        const bool is_of_another_unit =
            has_unit[value.node] && found_.unit[value.node] != found_.unit[n];
        if (!found_.carries_gradient[n] || is_of_another_unit) {
          found_.carries_gradient[value.node] = false;
          found_.unit[value.node] = -1;
          continue;
        }
        found_.unit[value.node] = found_.unit[n];
        has_unit[value.node] = true;
      }
    }
  }

  const Program& program_;
  std::vector<bool> depends_on_weights_;
  ModelBlocks found_;
};

}  // namespace

ModelBlocks blocks_of(const Program& program) { return BlockFinder(program).run(); }

}  // namespace shardlab
