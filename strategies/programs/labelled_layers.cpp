// Labels are read first. Layers then spread to nodes without labels: backwards from their readers,
// then forwards from what they read.
#include "strategies/programs/labelled_layers.h"

#include <charconv>
#include <string_view>
#include <system_error>

namespace shardlab {
namespace {

// What is known about a node: the number of its layer, or one of these.
constexpr std::int64_t kUnknown = -1;
constexpr std::int64_t kOutside = -2;  // its label names no layer
constexpr std::int64_t kMixed = -3;    // it belongs to several layers

std::int64_t layer_in(std::string_view label) {
  constexpr std::string_view kLayers = "layers.";
  for (std::size_t begin = label.find(kLayers); begin != std::string_view::npos;
       begin = label.find(kLayers, begin + 1)) {
    if (begin > 0 && label[begin - 1] != '.') continue;
    const std::string_view rest = label.substr(begin + kLayers.size());
    std::int64_t layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    const bool is_whole = end == rest.data() + rest.size() || *end == '.';
    if (error == std::errc() && is_whole && layer >= 0) return layer;
  }
  return kOutside;
}

std::int64_t own_layer(const ProgramNode& node) {
  if (node.label.empty()) return kUnknown;
  const std::int64_t layer = layer_in(node.label);
  const bool is_shared = node.kind == NodeKind::kBuffer || node.kind == NodeKind::kInput ||
                         node.kind == NodeKind::kTangent;
  return layer == kOutside && is_shared ? kUnknown : layer;
}

void merge(std::int64_t& known, std::int64_t other) {
  if (known == kUnknown) {
    known = other;
  } else if (other != kUnknown && other != known) {
    known = kMixed;
  }
}

}  // namespace

std::vector<std::optional<std::int64_t>> labelled_layers(const Program& program) {
  const std::vector<ProgramNode>& nodes = program.nodes;
  std::vector<std::int64_t> own(nodes.size(), kUnknown);
  for (std::size_t i = 0; i < nodes.size(); ++i) own[i] = own_layer(nodes[i]);

  std::vector<std::int64_t> read_by = own;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    for (const ProgramInput& input : nodes[i].inputs) {
      for (const ValueRef& value : input.values) {
        if (own[value.node] != kUnknown || nodes[value.node].phase != nodes[i].phase) continue;
        merge(read_by[value.node], read_by[i]);
      }
    }
  }
  std::vector<std::int64_t> found = read_by;
  std::vector<std::optional<std::int64_t>> layers(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (read_by[i] == kUnknown) {
      for (const ProgramInput& input : nodes[i].inputs) {
        for (const ValueRef& value : input.values) merge(found[i], found[value.node]);
      }
    }
    if (found[i] >= 0) layers[i] = found[i];
  }
  return layers;
}

}  // namespace shardlab
