#include "runner/steps/step_report.h"

#include <algorithm>
#include <map>

#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "runner/steps/steps_answers.h"

namespace shardlab {
namespace {

constexpr double kShortest = 1.0 / 250.0;
constexpr double kNoGap = 1.0 / 1000.0;

std::string when_text(const StepTerm& term) {
  std::string text;
  for (const auto& [trait, value] : term.when) {
    text += (text.empty() ? "" : ", ") + trait + " " + value;
  }
  return text;
}

std::string help_of(const std::string& factor) {
  for (const FactorRow& row : all_step_factors()) {
    if (row.name == factor) return std::string(row.help);
  }
  return {};
}

nlohmann::json terms_json(const StepAssumptions& assumed) {
  nlohmann::json terms = nlohmann::json::array();
  for (const StepTerm& term : step_terms_of(assumed.stack).terms) {
    if (!term.holds(assumed.traits)) continue;
    terms.push_back({{"factor", term.name},
                     {"help", help_of(term.name)},
                     {"when", when_text(term)},
                     {"value", term.value},
                     {"low", term.low ? nlohmann::json(*term.low) : nlohmann::json()},
                     {"high", term.high ? nlohmann::json(*term.high) : nlohmann::json()}});
  }
  return terms;
}

}  // namespace

std::vector<PicturedSpan> pictured_spans(std::span<const StepSpan> timeline,
                                         std::span<const std::string> blocks) {
  double end_us = 0.0;
  for (const StepSpan& span : timeline) end_us = std::max(end_us, span.end_us);
  struct Lane {
    std::vector<std::size_t> spans;
  };
  std::vector<std::string> names;  // in the order of their first spans
  std::map<std::string, Lane> lanes;
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    const auto [lane, is_new] = lanes.try_emplace(timeline[i].stream);
    if (is_new) names.push_back(timeline[i].stream);
    lane->second.spans.push_back(i);
  }
  std::vector<PicturedSpan> pictured;
  for (const std::string& name : names) {
    const std::size_t first = pictured.size();
    std::string block;  // the block of the last span
    for (const std::size_t i : lanes[name].spans) {
      const StepSpan& span = timeline[i];
      const std::string own = blocks.empty() ? std::string() : blocks[i];
      if (pictured.size() > first) {
        PicturedSpan& last = pictured.back();
        const bool is_short = last.end_us - last.start_us < kShortest * end_us;
        const bool of_block = !own.empty() && own == block;
        if (span.start_us - last.end_us < kNoGap * end_us && (is_short || of_block)) {
          last.end_us = span.end_us;
          ++last.tasks;
          if (!own.empty()) {
            last.name = own;
          } else if (last.name != span.name) {
            last.name = "kernels";
          }
          block = own;
          continue;
        }
      }
      block = own;
      pictured.push_back({name, own.empty() ? span.name : own, 1, span.start_us, span.end_us});
    }
  }
  return pictured;
}

std::vector<std::pair<std::string, std::string>> settings_of(const TrainingRun& run) {
  std::vector<std::pair<std::string, std::string>> settings = {
      {"sequence", std::to_string(run.seq) + " tokens"},
      {"micro-batch", std::to_string(run.micro_batch) + " of each data-parallel rank"},
      {"micro-batches between two optimizer steps", std::to_string(run.grad_accum)},
      {"precision of linear layers", std::string(name_of(run.precision))},
      {"kernels", std::string(name_of(run.execution))},
      {"attention", run.flash_attention ? "FlashAttention-2" : "cuDNN's kernels"},
      {"shared by data-parallel ranks", std::string(name_of(run.sharding))}};
  if (run.spread.pp > 1) {
    settings.emplace_back("pipeline schedule", std::string(name_of(run.schedule)));
  }
  if (run.shape.experts) {
    settings.emplace_back("busiest expert's rank over the mean", format_double(run.load_imbalance));
  }
  if (run.no_sync) settings.emplace_back("gradients", "summed up whole, reduced once a step");
  settings.emplace_back("reduced gradients",
                        format_double(run.gradient_bytes) + " bytes an element");
  settings.emplace_back("optimizer's traffic",
                        format_double(run.update_bytes) + " bytes a parameter");
  if (run.graphs) settings.emplace_back("launches", "CUDA graphs");
  if (run.async_tp) settings.emplace_back("tensor parallelism", "collectives beside the products");
  return settings;
}

nlohmann::json step_record_json(const StepSubject& subject, const StepPrediction& prediction,
                                const Topology& topology, const StepAssumptions& assumed) {
  nlohmann::json json = step_json(subject, prediction, topology);
  json["timeline"] = nlohmann::json::array();
  for (const PicturedSpan& span : pictured_spans(prediction.timeline, assumed.blocks)) {
    json["timeline"].push_back({{"stream", span.stream},
                                {"name", span.name},
                                {"tasks", span.tasks},
                                {"start_ms", span.start_us * 1e-3},
                                {"end_ms", span.end_us * 1e-3}});
  }
  nlohmann::json settings = nlohmann::json::array();
  for (const auto& [name, value] : assumed.settings) {
    settings.push_back({{"name", name}, {"value", value}});
  }
  json["assumed"] = {{"stack", assumed.stack.name},
                     {"title", assumed.stack.title},
                     {"source", assumed.stack.source},
                     {"settings", std::move(settings)},
                     {"terms", terms_json(assumed)}};
  return json;
}

}  // namespace shardlab
