#include "strategies/select/expansion_ties.h"

#include "sim/traffic.h"

namespace shardlab {

ExpansionTies::ExpansionTies(const StackEvaluator& evaluator, Redistributor& redistributor,
                             const Expansion& expansion, const OpRule* rule, const OpCall& call,
                             std::span<const std::size_t> seen)
    : evaluator_(evaluator),
      redistributor_(redistributor),
      expansion_(expansion),
      rule_(rule),
      call_(call),
      seen_(seen),
      moves_(expansion.inputs()) {}

double ExpansionTies::collectives(std::size_t position) {
  return sum(position, &Moves::collectives);
}

double ExpansionTies::bytes(std::size_t position) { return sum(position, &Moves::bytes); }

double ExpansionTies::compute_us(std::size_t position) {
  if (rule_ == nullptr) return 0.0;
  std::vector<Placements> inputs;
  std::vector<Placements> outputs;
  for (std::size_t i = 0; i < expansion_.inputs(); ++i) {
    inputs.push_back(expansion_.input(seen_[position], i));
  }
  for (std::size_t o = 0; o < expansion_.outputs(); ++o) {
    outputs.push_back(expansion_.output(seen_[position], o));
  }
  return evaluator_.kernel_us(*rule_, call_, redistributor_.mesh(), inputs, outputs);
}

std::string ExpansionTies::text(std::size_t position) {
  std::string text;
  for (std::size_t i = 0; i < expansion_.inputs(); ++i) {
    text += Layout(expansion_.input(seen_[position], i)).text() + " ";
  }
  for (std::size_t o = 0; o < expansion_.outputs(); ++o) {
    text += Layout(expansion_.output(seen_[position], o)).text() + " ";
  }
  return text;
}

double ExpansionTies::sum(std::size_t position, double Moves::*part) {
  double total = 0.0;
  for (std::size_t i = 0; i < expansion_.inputs(); ++i) {
    total += moves_of(i, expansion_.code(seen_[position], i)).*part;
  }
  return total;
}

const ExpansionTies::Moves& ExpansionTies::moves_of(std::size_t input, std::uint32_t code) {
  const auto [slot, is_new] = moves_[input].try_emplace(code);
  if (!is_new) return slot->second;
  const TensorSpec& tensor = *call_.tensors()[input];
  const Layout to(expansion_.input_layout(input, code));
  const Plan plan = redistributor_.plan(tensor.meta, tensor.layout, to);
  Layout before = plan.start;
  for (const PlanStep& step : plan.steps) {
    if (step.collective != Collective::kLocal) {
      slot->second.collectives += 1.0;
      slot->second.bytes +=
          static_cast<double>(bytes_moved(step, before, tensor.meta, redistributor_.mesh()));
    }
    before = step.after;
  }
  return slot->second;
}

}  // namespace shardlab
