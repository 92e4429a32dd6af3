// The memory of a device over the step of a solved program.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace solved_memory_section {

using namespace reports;

AreaPicture picture_of(const MemoryOverStep& memory) {
  AreaPicture picture;
  picture.id = "memory";
  picture.title = "What a device holds over the simulated step, in bytes.";
  const bool is_long = memory.end_us >= 1e3;
  const double unit = is_long ? 1e3 : 1.0;
  picture.unit = is_long ? "ms" : "us";
  picture.end = memory.end_us / unit;
  for (const double start : memory.start_us) picture.starts.push_back(start / unit);
  // What stays through the step lies at the bottom.
  const std::array<std::pair<const char*, const std::vector<double>*>, 6> parts = {{
      {"parameters and buffers", &memory.parameters},
      {"optimizer state", &memory.optimizer},
      {"gradients", &memory.gradients},
      {"activations", &memory.activations},
      {"gathered parameters", &memory.gathered},
      {"temporary", &memory.temporary},
  }};
  for (const auto& [name, bytes] : parts) {
    const bool is_there =
        std::any_of(bytes->begin(), bytes->end(), [](double value) { return value > 0.0; });
    if (is_there) picture.parts.push_back({name, *bytes});
  }
  return picture;
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  if (!record.memory_over_step || record.memory_over_step->start_us.empty()) return content;
  AreaPicture picture = picture_of(*record.memory_over_step);
  if (picture.parts.empty()) return content;
  const std::size_t peak = picture.peak();
  const double most = picture.sum_at(peak);
  content.blocks.emplace_back(
      Paragraph{"The host allocates what a task needs when the task is issued, and what nothing "
                "reads any more "
                "is freed. The parts lie on top of each other, and the scale begins at 0."});
  const AreaPicture::Part* largest = &picture.parts.front();
  for (const AreaPicture::Part& part : picture.parts) {
    if (part.bytes[peak] > largest->bytes[peak]) largest = &part;
  }
  content.answer =
      "The peak is " + bytes_text(most) + ", after " + fixed(picture.starts[peak], 2) + " of " +
      fixed(picture.end, 2) + " " + picture.unit +
      (record.memory && !record.memory->peak_at.empty() ? " (" + record.memory->peak_at + ")"
                                                        : std::string()) +
      "; the largest part of it is " + largest->name + ", " + bytes_text(largest->bytes[peak]) +
      ".";
  content.blocks.emplace_back(std::move(picture));
  return content;
}

}  // namespace solved_memory_section

REPORT_SECTION(solved_memory){
    .id = "solved_memory",
    .title = "Memory over the step",
    .question = "When does the step need how much memory, and for what?",
    .order = 39,
    .render = solved_memory_section::render,
};

}  // namespace shardlab
