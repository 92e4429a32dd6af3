// Measures the candidates of an expansion for the policies that break ties by something other than
// the price (TieBreaker in strategies/select/selection.h).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "strategies/rules/expansion.h"
#include "strategies/rules/op_rule.h"
#include "strategies/select/evaluator.h"
#include "strategies/select/selection.h"

namespace shardlab {

class ExpansionTies final : public TieBreaker {
 public:
  // `seen` lists the candidates in the order in which the policy sees them; the policy asks by
  // position in this list. `rule` may be null: then all kernels take equally long. Keeps references
  // to all arguments.
  ExpansionTies(const StackEvaluator& evaluator, Redistributor& redistributor,
                const Expansion& expansion, const OpRule* rule, const OpCall& call,
                std::span<const std::size_t> seen);

  double collectives(std::size_t position) override;
  double bytes(std::size_t position) override;
  double compute_us(std::size_t position) override;
  std::string text(std::size_t position) override;

 private:
  struct Moves {
    double collectives = 0.0;
    double bytes = 0.0;
  };

  [[nodiscard]] double sum(std::size_t position, double Moves::*part);
  [[nodiscard]] const Moves& moves_of(std::size_t input, std::uint32_t code);

  const StackEvaluator& evaluator_;
  Redistributor& redistributor_;
  const Expansion& expansion_;
  const OpRule* rule_;
  const OpCall& call_;
  std::span<const std::size_t> seen_;
  // For each input and code: each layout of an input is planned once, however many candidates want
  // it.
  std::vector<std::map<std::uint32_t, Moves>> moves_;
};

}  // namespace shardlab
