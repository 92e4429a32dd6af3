// Values, layouts and names as Python writes them.
//
//   python_value(json)                 // null is None, true is True, an infinity is math.inf
//   placements_text(layout.placements) // [Shard(0), Replicate()]
//   PythonNames names; names.fresh("layers.0.wq.weight")    // layers_0_wq_weight
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "sim/placement.h"
#include "sim/tensor_spec.h"

namespace shardlab::apply {

[[nodiscard]] std::string python_string(std::string_view text);
[[nodiscard]] std::string python_value(const nlohmann::json& value);
[[nodiscard]] std::string python_dtype(DType dtype);          // torch.bfloat16
[[nodiscard]] std::string python_list(const Shape& values);   // [4, 8]
[[nodiscard]] std::string python_tuple(const Shape& values);  // (4, 8), (4,)
// Throws InputError for a norm partial, which no placement of PyTorch's public interface is.
[[nodiscard]] std::string placements_text(const Placements& placements);
// A layout as part of a variable's name: "S0R", "P", "S0o1S0o0".
[[nodiscard]] std::string name_of_layout(const Layout& layout);

// Names that are valid in Python, each handed out once.
class PythonNames {
 public:
  // Names that the written file uses itself, and Python's keywords.
  PythonNames();
  // The text with all else replaced by "_", and with a "_" behind it where the name is taken.
  [[nodiscard]] std::string fresh(std::string_view text);

 private:
  std::set<std::string, std::less<>> taken_;
};

}  // namespace shardlab::apply
