#include "runner/steps/row_warnings.h"

#include <map>
#include <set>

#include "costmodel/base/text.h"
#include "reports/number_text.h"
#include "runner/evaluation/validation.h"

namespace shardlab {
namespace {

bool uses_network(const ExpressedStep& step) {
  return step.row.gpus > step.topology->domain_devices();
}

// The first few of the texts in quotes.
std::string examples(const std::set<std::string>& texts) {
  constexpr std::size_t kFew = 3;
  std::vector<std::string> quoted;
  for (const std::string& text : texts) {
    if (quoted.size() == kFew) break;
    quoted.push_back("\"" + text + "\"");
  }
  if (texts.size() > kFew) quoted.emplace_back("...");
  return join(std::span<const std::string>(quoted));
}

// Rows that are priced on the network of one topology, since they state no rate.
struct AssumedNetwork {
  std::int64_t rows = 0;
  std::set<std::string> texts;
  double gb_per_s = 0.0;
};

std::string warning_of(const std::string& topology, const AssumedNetwork& network) {
  return "column inter_host: found no rate of the network in " +
         reports::counted(network.rows, "row", "rows") + " (" + examples(network.texts) +
         "), so that of the topology " + topology + " is assumed, " +
         format_double(network.gb_per_s) +
         " GB/s a GPU; valid: a rate such as \"400 Gb/s a GPU\", \"1600 Gb/s a host\" or \"8 x "
         "200 Gb/s per node\"";
}

}  // namespace

std::vector<std::string> row_warnings(std::span<const ExpressedStep> steps) {
  std::map<std::string, std::int64_t> stand_ins;  // How many rows have such a warning.
  std::map<std::string, AssumedNetwork> networks;
  for (const ExpressedStep& step : steps) {
    const PublishedRun& run = step.published;
    if (!has_own_topology(step.row.gpu)) ++stand_ins[stand_in_warning(step.row.gpu, run.topology)];
    if (run.network.bandwidth_of_device || !uses_network(step)) continue;
    AssumedNetwork& network = networks[run.topology];
    ++network.rows;
    network.texts.insert(step.row.inter_host);
    network.gb_per_s = step.topology->links().back().bandwidth.value();
  }
  std::vector<std::string> warnings;
  for (const auto& [warning, rows] : stand_ins) {
    warnings.push_back(warning + ", for " + reports::counted(rows, "row", "rows"));
  }
  for (const auto& [topology, network] : networks) {
    warnings.push_back(warning_of(topology, network));
  }
  return warnings;
}

}  // namespace shardlab
