// Rules that are not compiled in: those that a live PyTorch has for the ops of a stack.
//
//   std::shared_ptr<RuleSource> torch = ...;                 // runner/torch/torch_rules.h
//   const OpRule& rule = torch->rule("aten.mm.default");     // an OpRule like any other
//   Expansion expansion = expand(rule, call, mesh);          // which asks the source for its rows
//
// A source makes the rules with RuleFunction(source, ...), so that whoever uses an OpRule need not
// know where its answers come from. A source may be shared between threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "strategies/rules/op_rule.h"

namespace shardlab {

class RuleSource {
 public:
  RuleSource() = default;
  RuleSource(const RuleSource&) = delete;
  RuleSource& operator=(const RuleSource&) = delete;
  virtual ~RuleSource() = default;

  // What the rules are, as records say it: "PyTorch 2.15.0".
  [[nodiscard]] virtual std::string text() const = 0;
  // The rule of an op, which lives as long as the source. Names may be short, as those that
  // find_op_rule() takes. Throws InputError where the source has no rule.
  [[nodiscard]] virtual const OpRule& rule(std::string_view op) = 0;
  // All ops that the source has a rule for, sorted.
  [[nodiscard]] virtual std::vector<std::string_view> ops() = 0;
  // Tells the source which calls will be asked about, so that it can answer them together, which
  // is faster than one by one. Mistakes in the calls are reported when they are asked about.
  virtual void prepare(std::span<const OpCall* const> calls) = 0;
};

// The rules of a stack: one of our rule sets, or a source.
class Rules {
 public:
  Rules() = default;
  Rules(RuleSet set) : set_(set) {}  // NOLINT: stack.rules = kShardlab
  // `nearest` is the rule set that is used where whoever asks needs one of ours.
  Rules(std::shared_ptr<RuleSource> source, RuleSet nearest)
      : set_(nearest), source_(std::move(source)) {}

  [[nodiscard]] RuleSet set() const { return set_; }
  [[nodiscard]] RuleSource* source() const { return source_.get(); }  // null for a rule set
  // The name of the rule set, or what the source is.
  [[nodiscard]] std::string text() const {
    return source_ == nullptr ? std::string(name_of(set_)) : source_->text();
  }
  // The rule set, for whoever cannot use a source. `user` is named in the InputError that is thrown
  // where there is one.
  [[nodiscard]] RuleSet set_for(std::string_view user) const {
    if (source_ == nullptr) return set_;
    throw InputError(std::string(user) + ": found a stack that rests on " + source_->text() +
                     "; valid: a stack with one of shardlab's own rule sets");
  }
  friend bool operator==(const Rules&, const Rules&) = default;

 private:
  RuleSet set_;
  std::shared_ptr<RuleSource> source_;
};

// The same look-up as in op_rule.h, in a rule set or in a source.
[[nodiscard]] inline const OpRule& find_op_rule(std::string_view op, const Rules& rules) {
  return rules.source() == nullptr ? find_op_rule(op, rules.set()) : rules.source()->rule(op);
}

}  // namespace shardlab
