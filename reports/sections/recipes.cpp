// Experts' recipes compared with the best plan, and where their time goes.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/base/units.h"
#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace recipes_section {

using namespace reports;

// A bar that is this many times as long as the shortest would leave no room to tell the others
// apart.
constexpr double kBeyond = 4.0;

double shortest_of(const std::vector<RecipeCost>& recipes) {
  double shortest = kInfinity;
  for (const RecipeCost& recipe : recipes) {
    if (recipe.figures) shortest = std::min(shortest, recipe.objective_us.value_or(kInfinity));
  }
  return shortest;
}

bool is_beyond(const RecipeCost& recipe, double shortest) {
  return recipe.objective_us.value_or(0.0) > kBeyond * shortest;
}

// "`greedy`, which takes 27.5 s, is beyond the picture."; "" if every recipe has its bar.
std::string beyond_text(const std::vector<RecipeCost>& recipes) {
  std::vector<std::string> names;
  const double shortest = shortest_of(recipes);
  for (const RecipeCost& recipe : recipes) {
    if (!recipe.figures || !is_beyond(recipe, shortest)) continue;
    names.push_back(code(recipe.recipe) + " with " + duration_text(*recipe.objective_us));
  }
  if (names.empty()) return "";
  return "Beyond the picture: " + listed(names) + ".";
}

Chart chart_of(const std::vector<RecipeCost>& recipes) {
  Chart chart;
  chart.id = "recipes";
  chart.title = "Time by recipe";
  chart.kind = ChartKind::kStackedBars;
  chart.x_title = "recipe";
  chart.y_title = "us";
  chart.is_tabulated = true;
  chart.series = {{"kernels", {}},
                  {"moves of parameters", {}},
                  {"moves of gradients", {}},
                  {"moves of activations", {}}};
  const double shortest = shortest_of(recipes);
  for (const RecipeCost& recipe : recipes) {
    if (!recipe.figures || is_beyond(recipe, shortest)) continue;
    chart.labels.push_back(recipe.recipe);
    chart.series[0].values.emplace_back(recipe.figures->kernels_us);
    chart.series[1].values.emplace_back(recipe.figures->moves.parameters_us);
    chart.series[2].values.emplace_back(recipe.figures->moves.gradients_us);
    chart.series[3].values.emplace_back(recipe.figures->moves.activations_us);
  }
  return chart;
}

std::optional<double> step_figure(const RecipeCost& recipe, double RecipeStep::*figure) {
  if (!recipe.step) return std::nullopt;
  return (*recipe.step).*figure;
}

Table table_of(const std::vector<RecipeCost>& recipes) {
  Table table;
  table.caption = "Recipes";
  table.columns = {{"recipe", ColumnKind::kText},
                   {"objective, us", ColumnKind::kNumber, 0},
                   {"above the best, %", ColumnKind::kNumber, 1},
                   {"kernels, us", ColumnKind::kNumber, 0},
                   {"parameters, us", ColumnKind::kNumber, 0},
                   {"gradients, us", ColumnKind::kNumber, 0},
                   {"activations, us", ColumnKind::kNumber, 0},
                   {"bytes kept", ColumnKind::kBytes},
                   {"simulated step, us", ColumnKind::kNumber, 0},
                   {"tokens/s/GPU", ColumnKind::kNumber, 0},
                   {"peak bytes", ColumnKind::kBytes}};
  for (const RecipeCost& recipe : recipes) {
    if (!recipe.figures) continue;
    const RecipeFigures& figures = *recipe.figures;
    table.rows.push_back({Cell(code(recipe.recipe), recipe.title), Cell(recipe.objective_us),
                          Cell(figures.above_percent), Cell(figures.kernels_us),
                          Cell(figures.moves.parameters_us), Cell(figures.moves.gradients_us),
                          Cell(figures.moves.activations_us), Cell(figures.kept_bytes),
                          Cell(step_figure(recipe, &RecipeStep::step_us)),
                          Cell(step_figure(recipe, &RecipeStep::tokens_per_s_per_gpu)),
                          Cell(step_figure(recipe, &RecipeStep::peak_bytes))});
  }
  return table;
}

Table misfit_table(const std::vector<RecipeCost>& recipes) {
  Table table;
  table.caption = "Recipes that do not fit this program and mesh";
  table.columns = {{"recipe", ColumnKind::kText}, {"why", ColumnKind::kText}};
  for (const RecipeCost& recipe : recipes) {
    if (recipe.misfit.empty()) continue;
    table.rows.push_back({Cell(code(recipe.recipe), recipe.title), Cell(recipe.misfit)});
  }
  return table;
}

// What becomes of the recipes' layouts of parameters and inputs where each operator is decided
// alone: by DTensor, and by the stack's own prices.
Table eager_table(const std::vector<RecipeCost>& recipes) {
  Table table;
  table.caption = "Each operator decided alone, from the recipe's layouts of parameters and inputs";
  table.columns = {{"recipe", ColumnKind::kName},
                   {"planned step, us", ColumnKind::kNumber, 0},
                   {"sum by this stack's prices, us", ColumnKind::kNumber, 0}};
  const bool has_eager = std::ranges::any_of(
      recipes, [](const RecipeCost& recipe) { return recipe.eager.has_value(); });
  if (has_eager) {
    table.columns.push_back({"DTensor's step, us", ColumnKind::kNumber, 0});
    table.columns.push_back({"DTensor's peak bytes", ColumnKind::kBytes});
  }
  for (const RecipeCost& recipe : recipes) {
    if (!recipe.figures) continue;
    std::vector<Cell>& row = table.rows.emplace_back(
        std::vector<Cell>{Cell(recipe.recipe), Cell(step_figure(recipe, &RecipeStep::step_us)),
                          Cell(recipe.figures->greedy_us)});
    if (!has_eager) continue;
    const std::optional<RecipeEager>& eager = recipe.eager;
    row.push_back(eager ? Cell(eager->step_us) : Cell());
    row.push_back(eager ? Cell(eager->peak_bytes) : Cell());
  }
  return table;
}

// "The shortest step that fits is that of `fsdp`, 1.35 s."; "" if no step is known.
std::string shortest_text(const std::vector<RecipeCost>& recipes) {
  const RecipeCost* best = nullptr;
  bool is_known = false;
  for (const RecipeCost& recipe : recipes) {
    if (!recipe.step || recipe.recipe == "greedy") continue;
    is_known = true;
    if (!recipe.step->fits) continue;
    if (best == nullptr || recipe.step->step_us < best->step->step_us) best = &recipe;
  }
  if (!is_known) return "";
  if (best == nullptr) return " No plan fits into a device's memory.";
  return " The shortest step that fits is that of " + code(best->recipe) + ", " +
         duration_text(best->step->step_us) + ".";
}

SectionContent render(const SolutionRecord& record) {
  SectionContent content;
  const std::vector<RecipeCost>& recipes = record.answers.recipes;
  if (recipes.empty()) return content;
  content.blocks.emplace_back(Paragraph{
      "A recipe fixes layouts as an expert writes them; the rest is solved. The objective "
      "is the time of the kernels and of what moves: parameters, their gradients, and activations "
      "with theirs. Bytes kept are parameters, gradients and Adam's state of one device."});
  content.blocks.emplace_back(Charts{{chart_of(recipes)}});
  if (const std::string beyond = beyond_text(recipes); !beyond.empty()) {
    content.blocks.emplace_back(Paragraph{beyond});
  }
  content.blocks.emplace_back(table_of(recipes));
  content.blocks.emplace_back(eager_table(recipes));
  Table misfits = misfit_table(recipes);
  if (!misfits.rows.empty()) content.blocks.emplace_back(std::move(misfits));
  const RecipeCost* nearest = nullptr;
  for (const RecipeCost& recipe : recipes) {
    const bool is_recipe = !recipe.recipe.starts_with("optimum");
    if (!is_recipe || !recipe.figures || !recipe.figures->above_percent) continue;
    if (nearest == nullptr || *recipe.figures->above_percent < *nearest->figures->above_percent) {
      nearest = &recipe;
    }
  }
  content.answer = nearest == nullptr
                       ? std::string("No recipe fits.")
                       : "The best recipe is " + code(nearest->recipe) + ", " +
                             fixed(*nearest->figures->above_percent, 1) +
                             " % above the best plan by the sum of kernels and moves.";
  content.answer += shortest_text(recipes);
  return content;
}

}  // namespace recipes_section

REPORT_SECTION(recipes){
    .id = "recipes",
    .title = "Experts' recipes",
    .question = "How close do the recipes come, and what do they pay for?",
    .order = 15,
    .render = recipes_section::render,
};

}  // namespace shardlab
