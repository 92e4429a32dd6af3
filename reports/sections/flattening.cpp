// Which flattened meshes are worth registering for a solved program.
#include "reports/flattened_table.h"
#include "reports/section.h"

namespace shardlab {
namespace flattening_section {

using namespace reports;

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::optional<FlattenedMeshes>& advice = record.answers.flattened_meshes;
  if (!advice) return content;
  if (!advice->worth.empty()) content.blocks.emplace_back(flattened_table(*advice));
  content.answer = flattened_sentence(*advice);
  return content;
}

}  // namespace flattening_section

REPORT_SECTION(flattening){
    .id = "flattening",
    .title = "Flattened meshes",
    .question = "Which flattened meshes are worth registering?",
    .order = 43,
    .render = flattening_section::render,
};

}  // namespace shardlab
