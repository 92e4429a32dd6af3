// The predicted step on one screen.
#include <string>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace predicted_step_section {

using namespace reports;

SectionContent render(const StepRecord& record) {
  SectionContent content;
  const PredictedMemory& memory = record.memory;
  content.blocks.emplace_back(
      Figures{{{"Tokens per second per GPU",
                fixed(record.tokens_per_s_per_gpu, record.tokens_per_s_per_gpu < 10.0 ? 2 : 0),
                fixed(record.tokens_per_step, 0) + " tokens a step on " +
                    counted(record.ranks, "rank", "ranks")},
               {"Step", duration_text(record.step_ms * 1e3), "between two optimizer steps"},
               {"MFU", fixed(record.mfu_percent, 1) + " %", "of the peak rate in bf16"},
               {"Memory at the peak", bytes_text(memory.peak_bytes),
                (memory.fits ? "of " : "MORE THAN ") + bytes_text(memory.device_bytes)}}});
  content.answer = step_sentence(record);
  return content;
}

}  // namespace predicted_step_section

REPORT_SECTION(predicted_step){
    .id = "predicted_step",
    .title = "The step",
    .question = "How long does a training step take?",
    .order = 17,
    .render = predicted_step_section::render,
};

}  // namespace shardlab
