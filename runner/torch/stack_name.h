// The names of stacks that a live PyTorch answers.
//
//   torch                                     the PyTorch of $SHARDLAB_TORCH_PYTHON, else of python3
//   torch:./venv                              of a virtual environment, or of an interpreter
//   torch:./venv+overlay=./pr-branch          with a checkout laid over its DTensor
//   torch+patch=faster.py+rules=mine.py       with files that are executed after the import
//   torch+cost=mine.py:price                  with a cost function in place of PyTorch's
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

struct TorchStackName {
  std::string text;    // as the user typed it
  std::string python;  // what stands after "torch:"; "" where nothing does
  std::optional<std::string> overlay;
  std::vector<std::string> patches;
  std::vector<std::string> rules;
  std::optional<std::string> cost;  // FILE.py:FUNCTION

  // Reads a name; nothing for a name that does not begin with "torch". Throws InputError for a part
  // that is unknown, empty, or given twice where it may be given once.
  [[nodiscard]] static std::optional<TorchStackName> parse(std::string_view text);
};

}  // namespace shardlab
