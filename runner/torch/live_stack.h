// Stacks that a live PyTorch answers, by name (stack_name.h).
//
//   LiveStacks live;                                         // one for a run of a command
//   std::optional<Stack> stack = live.stack("torch:./venv", store);
//
// Stacks of one name share a Python process, which ends with the last of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runner/config/configs.h"
#include "runner/torch/torch_rules.h"

namespace shardlab {

class LiveStacks final : public StackSource {
 public:
  // Nothing for a name that is not of this form. Throws InputError for a name that is, but is
  // wrong, and EnvironmentError when PyTorch can't be asked.
  [[nodiscard]] std::optional<Stack> stack(const std::string& name,
                                           const ConfigStore& store) override;

 private:
  std::mutex lock_;
  std::map<std::string, std::shared_ptr<TorchRules>> rules_;  // by name
};

}  // namespace shardlab
