#include "runner/steps/profile_comparison.h"

#include "costmodel/base/printable.h"
#include "runner/base/optional_values.h"
#include "runner/base/text_table.h"

namespace shardlab {

std::optional<double> ComparedPart::error_percent() const {
  if (profiled_us <= 0.0) return std::nullopt;
  return 100.0 * (predicted_us / profiled_us - 1.0);
}

std::vector<ComparedPart> compared_parts(const StepPrediction& prediction,
                                         const StepProfile& profile) {
  const StepBreakdown& predicted = prediction.breakdown;
  // A profile's kernels last as long as they do beside collectives.
  const auto lost = [&](KernelClass kind) {
    return predicted.contention_us[static_cast<std::size_t>(kind)];
  };
  const double gemm_us = predicted.gemm_us + lost(KernelClass::kGemm) + lost(KernelClass::kLowGemm);
  const double attention_us = predicted.attention_us + lost(KernelClass::kAttention);
  const double other_us = predicted.other_us + lost(KernelClass::kOther);
  double exposed = 0.0;
  for (const auto& [kind, us] : predicted.exposed_us) {
    if (kind != "contention") exposed += us;
  }
  return {{"GEMMs", "gemm", gemm_us, profile.gemm_us},
          {"attention", "attention", attention_us, profile.attention_us},
          {"other kernels", "other", other_us, profile.other_us},
          {"exposed communication", "exposed", exposed, profile.exposed_us},
          {"idle (host, bubble)", "idle", predicted.bubble_us + predicted.host_us, profile.idle_us},
          {"step", "step", prediction.step_us, profile.step_us}};
}

std::string comparison_text(const std::vector<ComparedPart>& parts, const StepProfile& profile,
                            const std::string& file, const TextStyle& style) {
  const std::string steps =
      !profile.is_marked   ? "its kernels taken for one step, since it marks none"
      : profile.steps == 1 ? "1 step"
                           : "the mean of " + std::to_string(profile.steps) + " steps";
  std::string text = "  beside the profile " + printable(file) + " (" +
                     (profile.gpu.empty() ? "" : printable(profile.gpu) + ", ") + steps + ")\n";
  TextTable table(style, {"", "predicted ms", "profiled ms", "error in percent"});
  for (const ComparedPart& part : parts) {
    table.add({part.name, style.figure(part.predicted_us * 1e-3),
               style.figure(part.profiled_us * 1e-3),
               style.rounded(part.error_percent(), 1, "none")});
  }
  return text + table.text();
}

nlohmann::json comparison_json(const std::vector<ComparedPart>& parts, const StepProfile& profile,
                               const std::string& file) {
  nlohmann::json out = {{"file", file},
                        {"gpu", text_or_null(profile.gpu)},
                        {"steps", profile.steps},
                        {"is_marked", profile.is_marked},
                        {"parts", nlohmann::json::object()}};
  for (const ComparedPart& part : parts) {
    out["parts"][part.key] = {{"predicted_ms", part.predicted_us * 1e-3},
                              {"profiled_ms", part.profiled_us * 1e-3},
                              {"error_percent", or_null(part.error_percent())}};
  }
  return out;
}

}  // namespace shardlab
