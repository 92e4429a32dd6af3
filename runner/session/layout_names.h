// How a command's text writes layouts: shardlab's short form, or PyTorch's names with
// --torch-names.
//
//   const LayoutNames names(session);
//   names.of(layout)              // "S(0)R", or "(Shard(dim=0), Replicate())"
//   names.of_texts("S(0)R, RR")   // short forms with ", " between them, each written so
//   names.path(plan)              // "S(0)R->RR", or PyTorch's names with a line for each step
//
// JSON keeps the short forms, which every command reads back and which are keys of files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/session/session.h"
#include "sim/plan.h"
#include "strategies/rules/op_call.h"

namespace shardlab {

class LayoutNames {
 public:
  explicit LayoutNames(const Session& session) : torch_(session.torch_names) {}

  [[nodiscard]] std::string of(const Placement& placement) const;
  [[nodiscard]] std::string of(const Layout& layout) const;
  [[nodiscard]] std::string of(const TensorSpec& tensor) const;
  [[nodiscard]] std::string of(const OpCall& call) const;  // "aten.mm.default(f32[8,8] R, ...)"
  // "S(0)->R", the change on one mesh dim.
  [[nodiscard]] std::string change(const Placement& from, const Placement& to) const;
  [[nodiscard]] std::string path(const Plan& plan) const;
  // A list of layouts in short form, as solutions hold them. A text that is no such list stays as
  // it is.
  [[nodiscard]] std::string of_texts(std::string_view texts) const;
  [[nodiscard]] std::vector<std::string> of_texts(const std::vector<std::string>& texts) const;

 private:
  bool torch_;
};

// Adds --torch-names, for commands that print layouts.
void add_torch_names_option(const Command& command, Session& session);

}  // namespace shardlab
