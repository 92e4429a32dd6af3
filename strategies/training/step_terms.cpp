#include "strategies/training/step_terms.h"

#include <algorithm>

#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr FactorRow kFactors[] = {
    {"rate", &StepFactors::rate, 0.05, 20.0, "rate of all kernels, over that of the stack"},
    {"gemm", &StepFactors::gemm, 0.05, 20.0, "rate of GEMMs in bf16, over that of the stack"},
    {"low_gemm", &StepFactors::low_gemm, 0.05, 20.0,
     "rate of GEMMs in 8 and 4 bits, over that of the stack"},
    {"grouped", &StepFactors::grouped, 0.05, 20.0,
     "rate of the experts' grouped GEMMs, over that of other GEMMs"},
    {"attention", &StepFactors::attention, 0.05, 20.0, "rate of attention, over that of the stack"},
    {"memory", &StepFactors::memory, 0.05, 20.0,
     "rate of all other kernels, over that of the stack"},
    {"links", &StepFactors::links, 0.05, 20.0,
     "bandwidth inside a scale-up domain, over that of the stack"},
    {"network", &StepFactors::network, 0.05, 20.0, "bandwidth beyond it, over that of the stack"},
    {"host_us", &StepFactors::host_us, 0.0, 1e3, "the host's time to launch a kernel"},
    {"collective_share", &StepFactors::collective_share, 0.0, 1.0,
     "share of the multiprocessors that a collective takes"},
    {"memory_passes", &StepFactors::memory_passes, 0.0, 20.0,
     "how often each byte that a collective moves passes the device's memory"},
    {"waiting", &StepFactors::waiting, 0.0, 1.0,
     "share of the step that is added for each doubling of the hosts"},
    {"fixed_us", &StepFactors::fixed_us, 0.0, 1e9, "time of each step that no kernel explains"}};

}  // namespace

std::span<const FactorRow> all_step_factors() { return kFactors; }

bool StepTerm::holds(const RunTraits& traits) const {
  return std::all_of(when.begin(), when.end(), [&](const auto& each) {
    const auto found = traits.find(each.first);
    return found != traits.end() && found->second == each.second;
  });
}

StepTerms StepTerms::from_json(const nlohmann::json& json, const JsonPlace& place) {
  StepTerms terms;
  std::size_t index = 0;
  for (const nlohmann::json& each : json_array(json, place)) {
    ObjectReader reader(each, place.at(index++));
    StepTerm term;
    term.name = reader.text("name");
    const FactorRow* row = nullptr;
    std::vector<std::string_view> names;
    for (const FactorRow& factor : all_step_factors()) {
      names.push_back(factor.name);
      if (factor.name == term.name) row = &factor;
    }
    if (row == nullptr) {
      reader.place("name").fail("found \"" + term.name + "\"" + did_you_mean(term.name, names) +
                                "; valid: " + join(names));
    }
    if (const nlohmann::json* when = reader.find("when")) {
      if (!when->is_object()) {
        reader.place("when").fail("found " + describe_json(*when) +
                                  "; valid: an object of texts, {\"gpu\": \"h100\"}");
      }
      for (const auto& [key, value] : when->items()) {
        term.when[key] = json_text(value, reader.place("when").at(key));
      }
    }
    term.value = reader.number("value", {.min = 0.0, .max = 1e9});
    if (reader.find("low") != nullptr) term.low = reader.number("low", {.min = 0.0});
    if (reader.find("high") != nullptr) term.high = reader.number("high", {.min = 0.0});
    reader.finish();
    terms.terms.push_back(std::move(term));
  }
  return terms;
}

nlohmann::json StepTerms::to_json() const {
  nlohmann::json json = nlohmann::json::array();
  for (const StepTerm& term : terms) {
    nlohmann::json each = {{"name", term.name}, {"value", term.value}};
    if (!term.when.empty()) each["when"] = term.when;
    if (term.low) each["low"] = *term.low;
    if (term.high) each["high"] = *term.high;
    json.push_back(std::move(each));
  }
  return json;
}

StepFactors StepTerms::factors(const RunTraits& traits) const {
  StepFactors factors;
  for (const FactorRow& row : all_step_factors()) {
    double& value = factors.*row.member;
    const bool is_sum = value == 0.0;
    for (const StepTerm& term : terms) {
      if (term.name != row.name || !term.holds(traits)) continue;
      value = is_sum ? value + term.value : value * term.value;
    }
    value = std::clamp(value, row.min, row.max);
  }
  return factors;
}

}  // namespace shardlab
