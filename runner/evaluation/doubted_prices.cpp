#include "runner/evaluation/doubted_prices.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "costmodel/base/text.h"
#include "costmodel/fitted_gpus.h"
#include "costmodel/registry.h"

namespace shardlab {
namespace {

constexpr std::size_t kShown = 3;

// Whether a model's prices do not depend on the topology's links.
bool is_constant(const Stack& stack) {
  const std::string_view name = stack.collective_model.entry->name;
  return name == "dtensor" || name == "ap_default";
}

// The shipped stack that was fitted to the topology's GPU: calibrated-h100 for h100-roce.
std::string measured_stack(const Topology& topology) {
  return "calibrated-" + topology.gpu().substr(0, topology.gpu().find('-'));
}

std::string_view reason_of(DoubtKind kind) {
  switch (kind) {
    case DoubtKind::kFasterThanLinks:
      return "faster than the links";
    case DoubtKind::kBelowAllGather:
      return "below an all_gather";
    case DoubtKind::kUnlikeMeasured:
      break;
  }
  return "unlike what was measured";
}

}  // namespace

DoubtedPrices::DoubtedPrices(const StackEvaluator& evaluator)
    : stack_(evaluator.stack().name),
      topology_(evaluator.topology().name()),
      gpu_(evaluator.topology().gpu()) {
  const Stack& stack = evaluator.stack();
  const auto note_gpus = [&](const std::string& prices, const std::vector<std::string>& gpus) {
    if (!is_fitted_to(gpus, evaluator.topology())) other_gpus_.push_back({prices, gpus});
  };
  note_gpus("collectives", stack.collective_model.fitted_gpus);
  note_gpus("kernels", stack.compute_model.fitted_gpus);
  if (is_constant(stack)) return;
  const ConfigStore store(configs_root(), {});
  const std::string name = measured_stack(evaluator.topology());
  const std::vector<std::string> names = store.names(ConfigKind::kStack);
  const ModelEntry& entry = *stack.collective_model.entry;
  const bool fitted = entry.fits_curves || entry.fits_population;
  if (!fitted && std::find(names.begin(), names.end(), name) != names.end()) {
    measured_ = make_collective_model(store.stack(name).collective_model, evaluator.topology());
  }
  doubts_.emplace(evaluator.collective_model(), evaluator.topology(),
                  MeasuredModel{name, measured_.get()});
}

void DoubtedPrices::add(const CollectiveQuery& query) {
  if (!doubts_ || !communicates(query)) return;
  const auto [place, is_new] = known_.try_emplace(
      Key{query.kind, query.group.ranks, query.group.hosts, query.full_bytes}, std::nullopt);
  if (is_new) place->second = doubts_->of(query);
}

void DoubtedPrices::add(const Plan& plan, const Redistributor& redistributor) {
  for (const PlanStep& step : plan.steps) {
    if (step.collective == Collective::kLocal) continue;
    add({step.collective, step.full_bytes, redistributor.span(step)});
  }
}

std::vector<const PriceDoubt*> DoubtedPrices::worst_first() const {
  std::vector<const PriceDoubt*> doubts;
  for (const auto& [key, doubt] : known_) {
    if (doubt) doubts.push_back(&*doubt);
  }
  std::ranges::stable_sort(
      doubts, [](const PriceDoubt* a, const PriceDoubt* b) { return a->ratio() > b->ratio(); });
  return doubts;
}

std::vector<std::string> DoubtedPrices::lines() const {
  const std::vector<const PriceDoubt*> doubts = worst_first();
  std::vector<std::string> lines;
  for (const OtherGpu& other : other_gpus_) lines.push_back(text_of(other));
  const std::size_t most = lines.size() + kShown;
  std::size_t untold = doubts.size();
  // Sizes that differ little are doubted alike: the worst stands for its collective and group.
  std::set<std::tuple<Collective, std::int64_t, std::int64_t>> told;
  for (const PriceDoubt* doubt : doubts) {
    const CollectiveQuery& query = doubt->query;
    if (lines.size() == most) break;
    if (!told.emplace(query.kind, query.group.ranks, query.group.hosts).second) continue;
    lines.push_back("doubtful price: " + doubt->text());
    --untold;
  }
  if (untold > 0) lines.push_back(std::to_string(untold) + " more prices are doubtful");
  return lines;
}

std::string DoubtedPrices::text() const {
  std::string text;
  for (const std::string& line : lines()) text += "  note: " + line + "\n";
  return text;
}

std::string DoubtedPrices::text_of(const OtherGpu& other) const {
  const std::string gpus = join(other.fitted_gpus);
  return stack_ + "'s prices of " + other.prices + " were fitted to runs on " + gpus +
         ", and the topology " + topology_ + " is of the GPU " + gpu_ +
         ": they are carried over from one GPU to another, and how far they are off is not known; "
         "if it is the same GPU, say so with --set device.gpu=" +
         other.fitted_gpus.front();
}

void DoubtedPrices::add_to(nlohmann::json& document) const {
  for (const OtherGpu& other : other_gpus_) {
    document["other_gpu"].push_back(
        {{"prices", other.prices}, {"fitted_gpus", other.fitted_gpus}, {"gpu", gpu_}});
  }
  for (const PriceDoubt* doubt : worst_first()) {
    document["doubtful"].push_back({{"collective", to_string(doubt->query.kind)},
                                    {"ranks", doubt->query.group.ranks},
                                    {"hosts", doubt->query.group.hosts},
                                    {"full_bytes", doubt->query.full_bytes},
                                    {"price_us", doubt->price_us},
                                    {"other_us", doubt->other_us},
                                    {"reason", reason_of(doubt->kind)}});
  }
}

}  // namespace shardlab
