#include "runner/evaluation/fitted_sets.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "costmodel/base/text.h"
#include "runner/evaluation/measurement_files.h"
#include "runner/evaluation/population.h"

namespace shardlab {
namespace {

constexpr std::string_view kFitted = "fitted:";
constexpr std::size_t kDigestDigits = 16;

// What a stack's source says that it was fitted to.
struct FittedSets {
  std::set<std::string, std::less<>> digests;
  std::set<std::string, std::less<>> names;  // the names of the sets without a digest
};

FittedSets fitted_sets(std::string_view source) {
  FittedSets out;
  if (!source.starts_with(kFitted)) return out;
  source.remove_prefix(kFitted.size());
  while (!source.empty()) {
    const std::size_t end = std::min(source.find(", "), source.size());
    const std::string_view entry = source.substr(0, end);
    source.remove_prefix(std::min(end + 2, source.size()));
    const std::size_t mark = entry.rfind('#');
    if (mark != std::string_view::npos && entry.size() - mark - 1 == kDigestDigits) {
      out.digests.emplace(entry.substr(mark + 1));
    } else {
      out.names.emplace(entry);
    }
  }
  return out;
}

// "fitted:" and what `text_of` says of each set.
std::string listed(std::span<const MeasurementSet> sets, const auto& text_of) {
  std::string source;
  for (const MeasurementSet& set : sets) {
    source += (source.empty() ? std::string(kFitted) : ", ") + text_of(set);
  }
  return source;
}

std::string these(std::span<const MeasurementSet> sets, const std::vector<std::string>& known) {
  return sets.size() == 1 ? "this set, " + known.front()
                          : std::to_string(known.size()) + " of these " +
                                std::to_string(sets.size()) + " sets, such as " + known.front();
}

}  // namespace

std::string fitted_source(std::span<const MeasurementSet> sets) {
  return listed(sets, [](const MeasurementSet& set) { return set.name + "#" + set.digest(); });
}

std::string shipped_source(std::span<const MeasurementSet> sets) {
  return listed(sets, [](const MeasurementSet& set) { return set.name; });
}

bool is_same_run(const MeasurementSet& a, const MeasurementSet& b) {
  return a.name == b.name || a.digest() == b.digest();
}

std::string fitted_warning(const Stack& stack, std::span<const MeasurementSet> sets,
                           const ConfigStore& store) {
  const FittedSets fitted = fitted_sets(stack.source);
  if (fitted.digests.empty() && fitted.names.empty()) return "";
  std::set<std::string> prior;
  const ModelEntry* entry = stack.collective_model.entry;
  if (entry != nullptr && entry->fits_population) {
    for (const MeasurementSet& set : healthy_measurements(store)) {
      if (is_in_population(set)) prior.insert(set.digest());
    }
  }
  std::vector<std::string> known;
  std::vector<std::string> known_to_prior;
  for (const MeasurementSet& set : sets) {
    const std::string digest = set.digest();
    if (fitted.digests.contains(digest) || fitted.names.contains(set.name)) {
      known.push_back(set.name);
    } else if (prior.contains(digest)) {
      known_to_prior.push_back(set.name);
    }
  }
  std::string seen;
  if (!known.empty()) seen = stack.name + " was fitted to " + these(sets, known);
  if (!known_to_prior.empty()) {
    seen += (seen.empty() ? stack.name + " was fitted" : ", and") +
            " with the shipped logs as its prior, which hold " + these(sets, known_to_prior);
  }
  if (seen.empty()) return "";
  const bool is_one = known.size() + known_to_prior.size() == 1;
  return seen + ": its errors on " + (is_one ? "it" : "them") +
         " say nothing about runs that it has not seen";
}

}  // namespace shardlab
