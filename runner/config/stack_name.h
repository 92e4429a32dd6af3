// The names of stacks that Python code answers.
//
//   torch                                     the PyTorch of $SHARDLAB_TORCH_PYTHON, else of
//                                             python3
//   torch:./venv                              of a virtual environment, or of an interpreter
//   torch:./venv+overlay=./pr-branch          with a checkout laid over its DTensor
//   torch+patch=faster.py+rules=mine.py       with files that are executed after the import
//   torch+cost=mine.py:price                  with a cost function in place of PyTorch's
//   dtensor-2.13+cost=mine.py:price           a stack of shardlab's own with a cost function
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct LiveStackName {
  std::string text;    // as the user typed it
  std::string base;    // the stack of shardlab's own, such as "dtensor-2.13"; "" for a live PyTorch
  std::string python;  // what stands after "torch:"; "" where nothing does
  std::optional<std::string> overlay;
  std::vector<std::string> patches;
  std::vector<std::string> rules;
  std::optional<std::string> cost;  // FILE.py:FUNCTION

  // Reads a name; nothing for one that neither begins with "torch" nor has a part "+cost=". Throws
  // InputError for a part that is unknown, empty, or given twice where it may be given once.
  [[nodiscard]] static std::optional<LiveStackName> parse(std::string_view text);
};

}  // namespace shardlab
