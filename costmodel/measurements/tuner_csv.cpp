#include "costmodel/measurements/tuner_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "costmodel/base/error.h"
#include "costmodel/base/lower_case.h"
#include "costmodel/base/text.h"

namespace shardlab {
namespace {

constexpr std::string_view kHeader =
    "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
    "regBuff\n";
// A model is asked about sizes from 1 byte to 1 TiB.
constexpr int kOctaves = 40;
constexpr int kStepsOfOctave = 8;

// The file writes NCCL's names in lower case.
template <class Enum>
std::optional<Enum> from_lower_name(std::string_view name) {
  for (const Named<Enum>& each : EnumNames<Enum>::kNames) {
    if (lower_case(each.name) == name) return each.value;
  }
  return std::nullopt;
}

// One line of the file.
class LineReader {
 public:
  LineReader(std::string_view line, std::string_view file, int number)
      : place_("line " + std::to_string(number)), file_(file) {
    while (true) {
      const std::size_t comma = line.find(',');
      fields_.push_back(trimmed(line.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
  }

  [[nodiscard]] TunerRule read() const {
    if (fields_.size() < 8 || fields_.size() > 10) {
      fail("found " + std::to_string(fields_.size()) + " fields; valid: 8, 9 or 10");
    }
    TunerRule rule;
    rule.collective = word<TunerCollective>(0, "collective_type");
    rule.min_bytes = size(1, "min_bytes");
    rule.max_bytes = size(2, "max_bytes");
    if (rule.min_bytes > rule.max_bytes) {
      fail("min_bytes " + std::to_string(rule.min_bytes) + " is above max_bytes " +
           std::to_string(rule.max_bytes));
    }
    rule.algorithm = word<NcclAlgorithm>(3, "algorithm");
    rule.protocol = word<NcclProtocol>(4, "protocol");
    rule.channels = count(5, "channels", 1, 64);
    rule.nodes = count(6, "nNodes", 1, kMaxRanks);
    rule.ranks = count(7, "nRanks", 1, kMaxRanks);
    if (fields_.size() > 8) rule.pipe_ops = count(8, "numPipeOps", 0, 1 << 30);
    if (fields_.size() > 9) rule.registered = count(9, "regBuff", 0, 1);
    return rule;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw ConfigError(file_, place_, message);
  }

  template <class Number>
  [[nodiscard]] std::optional<Number> number(std::size_t index) const {
    Number value{};
    const char* end = fields_[index].data() + fields_[index].size();
    const auto result = std::from_chars(fields_[index].data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
    return value;
  }

  template <class Enum>
  [[nodiscard]] Enum word(std::size_t index, std::string_view name) const {
    const std::optional<Enum> value = from_lower_name<Enum>(fields_[index]);
    if (!value) {
      std::vector<std::string> names;
      for (const std::string_view each : all_names<Enum>()) names.push_back(lower_case(each));
      const std::vector<std::string_view> valid(names.begin(), names.end());
      fail(std::string(name) + ": found \"" + std::string(fields_[index]) + "\"" +
           did_you_mean(fields_[index], valid) + "; valid: " + join(valid));
    }
    return *value;
  }

  [[nodiscard]] std::uint64_t size(std::size_t index, std::string_view name) const {
    const auto value = number<std::uint64_t>(index);
    if (!value) {
      fail(std::string(name) + ": found \"" + std::string(fields_[index]) +
           "\"; valid: a number of bytes");
    }
    return *value;
  }

  [[nodiscard]] std::int64_t count(std::size_t index, std::string_view name, std::int64_t min,
                                   std::int64_t max) const {
    const auto value = number<std::int64_t>(index);
    if (!value || (*value != -1 && (*value < min || *value > max))) {
      fail(std::string(name) + ": found \"" + std::string(fields_[index]) + "\"; valid: -1, or " +
           std::to_string(min) + " to " + std::to_string(max));
    }
    return *value;
  }

  std::string place_;
  std::string_view file_;
  std::vector<std::string_view> fields_;
};

std::optional<NcclDecision> decision_by_name(std::string_view algorithm,
                                             std::string_view protocol) {
  const auto known_algorithm = from_name<NcclAlgorithm>(algorithm);
  const auto known_protocol = from_name<NcclProtocol>(protocol);
  if (!known_algorithm || !known_protocol) return std::nullopt;
  return NcclDecision{*known_algorithm, *known_protocol};
}

constexpr Collective kTuned[] = {Collective::kBroadcast, Collective::kAllGather,
                                 Collective::kReduceScatter, Collective::kAllReduce};

// The sizes in bytes, ascending, each listed once.
std::vector<std::uint64_t> grid() {
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i <= kOctaves * kStepsOfOctave; ++i) {
    const auto size = static_cast<std::uint64_t>(
        std::llround(std::exp2(static_cast<double>(i) / kStepsOfOctave)));
    if (sizes.empty() || size > sizes.back()) sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

std::string_view to_string(TunerCollective collective) { return name_of(collective); }

std::optional<TunerCollective> tuner_collective(Collective collective) {
  switch (collective) {
    case Collective::kBroadcast:
      return TunerCollective::kBroadcast;
    case Collective::kAllGather:
      return TunerCollective::kAllGather;
    case Collective::kReduceScatter:
      return TunerCollective::kReduceScatter;
    case Collective::kAllReduce:
      return TunerCollective::kAllReduce;
    default:
      return std::nullopt;
  }
}

std::vector<TunerRule> read_tuner_csv(std::string_view text, std::string_view file) {
  std::vector<TunerRule> rules;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    // The file that comes with the example begins with the names of the columns.
    if (line.empty() || line.starts_with('#') || line.starts_with("collective_type,")) continue;
    rules.push_back(LineReader(line, file, number).read());
  }
  return rules;
}

std::string tuner_csv_text(std::span<const TunerRule> rules) {
  std::string text(kHeader);
  for (const TunerRule& rule : rules) {
    text += std::string(to_string(rule.collective)) + "," + std::to_string(rule.min_bytes) + "," +
            std::to_string(rule.max_bytes) + "," + lower_case(name_of(rule.algorithm)) + "," +
            lower_case(name_of(rule.protocol));
    for (const std::int64_t value :
         {rule.channels, rule.nodes, rule.ranks, rule.pipe_ops, rule.registered}) {
      text += "," + std::to_string(value);
    }
    text += "\n";
  }
  return text;
}

const TunerRule* find_rule(std::span<const TunerRule> rules, TunerCollective collective,
                           std::uint64_t bytes, std::int64_t nodes, std::int64_t ranks) {
  for (const TunerRule& rule : rules) {
    const bool fits = rule.collective == collective && bytes >= rule.min_bytes &&
                      bytes <= rule.max_bytes && (rule.nodes == -1 || rule.nodes == nodes) &&
                      (rule.ranks == -1 || rule.ranks == ranks);
    if (fits) return &rule;
  }
  return nullptr;
}

std::optional<NcclDecision> decision_of(const CostModel& model, const CollectiveQuery& query) {
  for (const Alternative& alternative : model.alternatives(query)) {
    const auto decision = decision_by_name(alternative.algorithm, alternative.protocol);
    if (decision) return decision;
  }
  return std::nullopt;
}

std::vector<TunerRule> tuner_rules(const CostModel& model, const GroupSpan& span) {
  std::vector<TunerRule> rules;
  const std::vector<std::uint64_t> sizes = grid();
  for (const Collective kind : kTuned) {
    const auto choice = [&](std::uint64_t bytes) {
      return decision_of(model, {kind, static_cast<double>(bytes), span});
    };
    std::optional<NcclDecision> now = choice(sizes.front());
    std::uint64_t begin = 0;
    const auto add = [&](std::uint64_t end) {
      if (!now) return;
      rules.push_back({.collective = *tuner_collective(kind),
                       .min_bytes = begin,
                       .max_bytes = end,
                       .algorithm = now->algorithm,
                       .protocol = now->protocol,
                       .nodes = span.hosts,
                       .ranks = span.ranks});
    };
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      while (choice(sizes[i]) != now) {
        // `low` is a size with the old choice, `high` a size with the new one.
        std::uint64_t low = std::max(sizes[i - 1], begin);
        std::uint64_t high = sizes[i];
        while (high - low > 1) {
          const std::uint64_t middle = low + (high - low) / 2;
          (choice(middle) == now ? low : high) = middle;
        }
        add(low);
        begin = high;
        now = choice(high);
      }
    }
    add(kAnySize);
  }
  return rules;
}

std::vector<TunerRule> tuner_rules_of(const MeasurementSet& set) {
  std::map<std::pair<TunerCollective, std::uint64_t>, NcclDecision> by_size;
  for (const MeasuredRow& row : set.rows) {
    const auto collective = tuner_collective(row.collective);
    const auto decision = decision_by_name(row.algorithm, row.protocol);
    if (!collective || !decision) continue;
    by_size.emplace(std::pair(*collective, static_cast<std::uint64_t>(row.bytes)), *decision);
  }
  std::vector<TunerRule> rules;
  for (const auto& [key, decision] : by_size) {
    const bool goes_on = !rules.empty() && rules.back().collective == key.first;
    if (goes_on && rules.back().algorithm == decision.algorithm &&
        rules.back().protocol == decision.protocol) {
      continue;
    }
    if (goes_on) rules.back().max_bytes = key.second - 1;
    rules.push_back({.collective = key.first,
                     .min_bytes = goes_on ? key.second : 0,
                     .algorithm = decision.algorithm,
                     .protocol = decision.protocol,
                     .nodes = set.hosts,
                     .ranks = set.ranks});
  }
  return rules;
}

}  // namespace shardlab
