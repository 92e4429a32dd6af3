#include "costmodel/gpu_model.h"

#include <algorithm>
#include <array>

#include "costmodel/base/lower_case.h"

namespace shardlab {
namespace {

// Longer names come first: "GH200" contains "H200" but is another machine.
// Of AMD's, those stand here whose topology is shipped.
constexpr std::array<std::string_view, 13> kModels = {"gb200",  "gb300",  "gh200", "b200", "b300",
                                                      "h200",   "h100",   "a100",  "v100", "mi300x",
                                                      "mi325x", "mi350x", "mi355x"};

}  // namespace

std::string gpu_model(std::string_view name) {
  const std::string plain = lower_case(name);
  for (const std::string_view model : kModels) {
    if (plain.find(model) == std::string::npos) continue;
    return std::string(model) + (plain.find("pcie") != std::string::npos ? "-pcie" : "");
  }
  return "";
}

std::string plain_gpu(std::string_view name) {
  if (std::string model = gpu_model(name); !model.empty()) return model;
  std::string plain = lower_case(name.substr(0, name.find('(')));
  for (const std::string_view maker : {"nvidia", "geforce", "amd", "instinct"}) {
    const std::size_t at = plain.find(maker);
    if (at != std::string::npos) plain.erase(at, maker.size());
  }
  std::erase(plain, ' ');
  return plain;
}

}  // namespace shardlab
