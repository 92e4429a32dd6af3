// What shardlab knows of an op whose rows come from elsewhere: its kernel, its floating point
// operations, the shapes of its outputs.
#pragma once

#include <string_view>

#include "strategies/rules/rule_table.h"

namespace shardlab {

// The rule of the op in `nearest`, or else in one of our other rule sets; null if none has the op.
[[nodiscard]] inline const OpRule* known_rule(std::string_view op, RuleSet nearest) {
  for (const RuleSet set : {nearest, kShardlab, kAutoParallel}) {
    for (const OpRule* rule : rule_table(set).named(op)) {
      if (rule->op == op) return rule;
    }
  }
  return nullptr;
}

}  // namespace shardlab
