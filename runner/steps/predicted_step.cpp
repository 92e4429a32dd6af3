#include "runner/steps/predicted_step.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "runner/base/text_table.h"

namespace shardlab {
namespace {

double gib(double bytes) { return bytes / kBytesPerGiB; }

bool fits(const StepPrediction& prediction, const Topology& topology) {
  return gib(prediction.memory.peak_bytes) <= topology.device().memory_gib;
}

struct Part {
  std::string name;
  double us;
};

std::vector<Part> parts_of(const StepBreakdown& breakdown) {
  std::vector<Part> parts = {{"GEMMs", breakdown.gemm_us},
                             {"attention", breakdown.attention_us},
                             {"other kernels", breakdown.other_us}};
  for (const auto& [kind, us] : breakdown.exposed_us) {
    if (us > 0) parts.push_back({"exposed " + kind, us});
  }
  parts.push_back({"pipeline bubble", breakdown.bubble_us});
  parts.push_back({"host", breakdown.host_us});
  return parts;
}

}  // namespace

StepSubject subject_of(const TrainingRun& run) {
  return {run.shape.name, run.spread.text(), run.spread.ranks(), run.tokens_per_step(), false};
}

nlohmann::json step_json(const StepSubject& subject, const StepPrediction& prediction,
                         const Topology& topology) {
  const StepBreakdown& breakdown = prediction.breakdown;
  nlohmann::json exposed = nlohmann::json::object();
  for (const auto& [kind, us] : breakdown.exposed_us) exposed[kind] = us * 1e-3;
  const TrainingMemory& memory = prediction.memory;
  return {{"model", subject.name},
          {"topology", topology.name()},
          {"mesh", subject.mesh},
          {"ranks", subject.ranks},
          {"tokens_per_s_per_gpu", prediction.tokens_per_s_per_gpu},
          {"step_ms", prediction.step_us * 1e-3},
          {"mfu_percent", 100.0 * prediction.mfu},
          {"tokens_per_step", subject.tokens_per_step},
          {"recompute", prediction.recompute.text()},
          {"memory",
           {{"peak_bytes", memory.peak_bytes},
            {"device_bytes", topology.device().memory_gib * kBytesPerGiB},
            {"fits", fits(prediction, topology)},
            {"parts",
             {{"parameters", memory.parameters},
              {"gradients", memory.gradients},
              {"optimizer", memory.optimizer},
              {"activations", memory.activations},
              {"gathered", memory.gathered},
              {"temporary", memory.temporary}}}}},
          {"breakdown_ms",
           {{"gemm", breakdown.gemm_us * 1e-3},
            {"attention", breakdown.attention_us * 1e-3},
            {"other", breakdown.other_us * 1e-3},
            {"exposed", std::move(exposed)},
            {"bubble", breakdown.bubble_us * 1e-3},
            {"host", breakdown.host_us * 1e-3}}}};
}

std::string step_text(const StepSubject& subject, const StepPrediction& prediction,
                      const Topology& topology, const TextStyle& style) {
  const double rate = prediction.tokens_per_s_per_gpu;
  std::string text = subject.name + " on " + std::to_string(subject.ranks) + " ranks of " +
                     topology.name() + " (" + subject.mesh +
                     "): " + style.rounded(rate, rate < 10.0 ? 2 : 0) +
                     (subject.has_samples ? " samples" : " tokens") + " per second per GPU\n";
  text += "  a step takes " + style.figure(prediction.step_us * 1e-3) + " ms, " +
          style.rounded(100.0 * prediction.mfu, 1) + " % of the peak rate in bf16 (MFU)\n";
  TextTable times(style, {"where the time goes", "ms", "percent"});
  for (const Part& part : parts_of(prediction.breakdown)) {
    times.add({part.name, style.figure(part.us * 1e-3),
               style.rounded(100.0 * part.us / prediction.step_us, 1)});
  }
  text += times.text();
  const TrainingMemory& memory = prediction.memory;
  text += "  it needs " + style.rounded(gib(memory.peak_bytes), 1) + " of the GPU's " +
          style.rounded(topology.device().memory_gib, 1) + " GiB" +
          (fits(prediction, topology) ? "" : ", so it does not fit") + ", with recomputation " +
          prediction.recompute.text() + "\n";
  TextTable parts(style, {"memory", "GiB"});
  for (const auto& [name, bytes] : {std::pair<const char*, double>{"parameters", memory.parameters},
                                    {"gradients", memory.gradients},
                                    {"optimizer", memory.optimizer},
                                    {"activations", memory.activations},
                                    {"gathered weights", memory.gathered},
                                    {"temporary", memory.temporary}}) {
    parts.add({name, style.rounded(gib(bytes), 2)});
  }
  return text + parts.text();
}

void write_step_trace(std::ostream& out, const StepSubject& subject,
                      const StepPrediction& prediction) {
  nlohmann::json events = nlohmann::json::array();
  std::map<std::string, int> threads;
  events.push_back(
      {{"name", "process_name"},
       {"ph", "M"},
       {"pid", 0},
       {"args",
        {{"name",
          subject.name + ", one micro-batch of one rank" +
              (subject.mesh.find("pp=") == std::string::npos ? "" : " of the first stage")}}}});
  for (const StepSpan& span : prediction.timeline) {
    const auto [found, is_new] = threads.emplace(span.stream, static_cast<int>(threads.size()));
    if (is_new) {
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", 0},
                        {"tid", found->second},
                        {"args", {{"name", span.stream}}}});
    }
    events.push_back({{"name", span.name},
                      {"ph", "X"},
                      {"pid", 0},
                      {"tid", found->second},
                      {"ts", span.start_us},
                      {"dur", span.end_us - span.start_us}});
  }
  out << nlohmann::json{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}}.dump()
      << "\n";
}

}  // namespace shardlab
