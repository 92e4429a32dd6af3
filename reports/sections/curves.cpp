// Price against bytes: one chart for each collective over each group, a line for each stack.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reports/number_text.h"
#include "reports/section.h"
#include "reports/summary.h"

namespace shardlab {
namespace curves_section {

using namespace reports;

// The curves of one chart: the same collective over the same group.
struct Family {
  std::string title;
  std::vector<const PriceCurve*> curves;
};

// "all_gather over tp, 8 ranks, on 8x8". A mesh with one dim is left out, because its group says
// the same.
std::string title_of(const PriceCurve& curve) {
  const bool is_one_dim = curve.mesh.find_first_not_of("0123456789") == std::string::npos;
  std::string title = curve.collective;
  if (!curve.group.empty()) title += " over " + curve.group;
  if (curve.group.empty() || !is_one_dim)
    title += (curve.group.empty() ? " on " : ", on ") + curve.mesh;
  return title;
}

std::vector<Family> families(const ComparisonRecord& record) {
  std::vector<Family> families;
  for (const PriceCurve& curve : record.curves) {
    const std::string title = title_of(curve);
    const auto found = std::find_if(families.begin(), families.end(),
                                    [&](const Family& family) { return family.title == title; });
    if (found == families.end()) {
      families.push_back({title, {&curve}});
    } else {
      found->curves.push_back(&curve);
    }
  }
  return families;
}

using PriceByBytes = std::map<double, std::optional<double>>;

PriceByBytes price_by_bytes(const PriceCurve& curve) {
  PriceByBytes prices;
  for (std::size_t i = 0; i < curve.bytes.size(); ++i) prices[curve.bytes[i]] = curve.price_us[i];
  return prices;
}

std::optional<double> price_at(const PriceByBytes& prices, double bytes) {
  const auto found = prices.find(bytes);
  return found == prices.end() ? std::nullopt : found->second;
}

Chart chart(const Family& family, std::size_t number) {
  Chart chart;
  chart.id = "curve-" + std::to_string(number);
  chart.title = family.title;
  chart.kind = ChartKind::kLines;
  chart.x_title = "bytes";
  chart.y_title = "price, us";
  for (const PriceCurve* curve : family.curves) {
    chart.x.insert(chart.x.end(), curve->bytes.begin(), curve->bytes.end());
  }
  std::sort(chart.x.begin(), chart.x.end());
  chart.x.erase(std::unique(chart.x.begin(), chart.x.end()), chart.x.end());
  for (const PriceCurve* curve : family.curves) {
    Series series{curve->stack, {}};
    const PriceByBytes prices = price_by_bytes(*curve);
    for (const double bytes : chart.x) series.values.push_back(price_at(prices, bytes));
    chart.series.push_back(std::move(series));
  }
  return chart;
}

// The point where a candidate's price is furthest from the baseline's, as a ratio.
std::string answer(const ComparisonRecord& record, const std::vector<Family>& families) {
  double widest = 1.0;
  std::string text;
  const bool has_others = std::ranges::any_of(record.curves, [&](const PriceCurve& curve) {
    return std::ranges::find(record.stacks, curve.stack) == record.stacks.end();
  });
  for (const Family& family : families) {
    const auto baseline =
        std::find_if(family.curves.begin(), family.curves.end(),
                     [&](const PriceCurve* curve) { return curve->stack == record.stacks[0]; });
    if (baseline == family.curves.end()) continue;
    const PriceByBytes baseline_prices = price_by_bytes(**baseline);
    for (const PriceCurve* curve : family.curves) {
      // The reference may be drawn although it is not among the compared stacks.
      const bool is_compared = std::find(record.stacks.begin(), record.stacks.end(),
                                         curve->stack) != record.stacks.end();
      if (!is_compared) continue;
      for (std::size_t i = 0; i < curve->bytes.size(); ++i) {
        const std::optional<double> from = price_at(baseline_prices, curve->bytes[i]);
        const std::optional<double>& to = curve->price_us[i];
        if (!from || !to || *from <= 0.0 || *to <= 0.0) continue;
        const double ratio = std::max(*from / *to, *to / *from);
        if (ratio <= widest) continue;
        widest = ratio;
        text = std::string(has_others ? "The compared stacks" : "The stacks") +
               " differ most for " + family.title + " at " + bytes_text(curve->bytes[i]) + ": " +
               code(curve->stack) + " prices it at " + fixed(*to, 2) + " us and " +
               code(record.stacks[0]) + " at " + fixed(*from, 2) + " us, a ratio of " +
               fixed(*to / *from, 2) + ".";
      }
    }
  }
  return text.empty() ? "The candidates' prices are those of the baseline." : text;
}

SectionContent render(const ComparisonRecord& record, const Comparison&) {
  SectionContent content;
  if (record.curves.empty()) {
    content.answer = "The record holds no price curves.";
    return content;
  }
  const std::vector<Family> all = families(record);
  content.blocks.emplace_back(
      Paragraph{"Both axes are logarithmic, so a price of 0 is not shown. Bytes are the "
                "larger of one rank's two buffers."});
  Charts charts;
  for (const Family& family : all) charts.charts.push_back(chart(family, charts.charts.size() + 1));
  content.blocks.emplace_back(std::move(charts));
  content.answer = answer(record, all);
  return content;
}

}  // namespace curves_section

REPORT_SECTION(curves){
    .id = "curves",
    .title = "Price against bytes",
    .question = "How does each stack's price of a collective grow with its size?",
    .order = 70,
    .render = curves_section::render,
};

}  // namespace shardlab
