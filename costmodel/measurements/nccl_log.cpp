#include "costmodel/measurements/nccl_log.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_tests_reader.h"
#include "costmodel/nccl_tuning.h"

namespace shardlab {
namespace {

// Takes the next word of the line, which ends at a blank.
std::string_view take_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos) {
    rest = {};
    return {};
  }
  rest.remove_prefix(begin);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest.remove_prefix(word.size());
  return word;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// The word itself, or, if it is a number, the name of the enumerator with that value.
template <class Enum>
std::string name_or_number(std::string_view word, int count) {
  const std::optional<std::int64_t> number = integer_of(word);
  if (!number) return std::string(word);
  if (*number < 0 || *number >= count) return "";
  return std::string(to_string(static_cast<Enum>(*number)));
}

// Reads "{Lo..Hi}={0..1}".
void read_channels(std::string_view line, NcclChoice& choice) {
  constexpr std::string_view kStart = "channel{Lo..Hi}={";
  const std::size_t found = line.find(kStart);
  if (found == std::string_view::npos) return;
  const std::string_view rest = line.substr(found + kStart.size());
  const std::size_t dots = rest.find("..");
  const std::size_t end = rest.find('}');
  if (dots == std::string_view::npos || end == std::string_view::npos || end < dots + 2) return;
  const auto first = integer_of(rest.substr(0, dots));
  const auto last = integer_of(rest.substr(dots + 2, end - dots - 2));
  if (!first || !last) return;
  choice.first_channel = *first;
  choice.last_channel = *last;
}

std::optional<NcclChoice> choice_in(std::string_view line) {
  constexpr std::string_view kArrow = " Bytes -> Algo ";
  const std::size_t arrow = line.find(kArrow);
  if (arrow == std::string_view::npos) return std::nullopt;
  // The text before the arrow ends in the collective and the size: "<Collective>: <bytes>".
  const std::size_t blank = line.rfind(' ', arrow - 1);
  if (arrow == 0 || blank == std::string_view::npos || blank == 0 || line[blank - 1] != ':') {
    return std::nullopt;
  }
  const auto bytes = integer_of(line.substr(blank + 1, arrow - blank - 1));
  const std::size_t name = line.find_last_of(" \t", blank - 1) + 1;
  const auto collective = nccl_collective_from_name(line.substr(name, blank - 1 - name));
  if (!bytes || *bytes < 0 || !collective) return std::nullopt;
  NcclChoice choice;
  choice.collective = *collective;
  choice.bytes = static_cast<double>(*bytes);
  std::string_view rest = line.substr(arrow + kArrow.size());
  choice.algorithm = name_or_number<NcclAlgorithm>(take_word(rest), 7);
  if (take_word(rest) != "proto") return std::nullopt;
  choice.protocol = name_or_number<NcclProtocol>(take_word(rest), 3);
  if (choice.algorithm.empty() || choice.protocol.empty()) return std::nullopt;
  read_channels(line, choice);
  return choice;
}

template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
  }
}

// The number that follows "<name> " in a line like "comm 0x7f rank 0 nRanks 16 nNodes 2 localRanks
// 8".
std::optional<std::int64_t> number_behind(std::string_view line, std::string_view name) {
  const std::size_t found = line.find(name);
  if (found == std::string_view::npos) return std::nullopt;
  std::string_view rest = line.substr(found + name.size());
  return integer_of(trimmed(take_word(rest)));
}

std::optional<double> decimal_of(std::string_view text) {
  double value = 0.0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) return std::nullopt;
  return value >= 0.0 && value <= 1e9 ? std::optional(value) : std::nullopt;
}

class TableReader {
 public:
  void read(std::string_view line) {
    constexpr std::string_view kMark = "NCCL INFO ";
    const std::size_t mark = line.find(kMark);
    if (mark == std::string_view::npos) return;
    line.remove_prefix(mark + kMark.size());
    const auto ranks = number_behind(line, " nRanks ");
    const auto hosts = number_behind(line, " nNodes ");
    if (ranks && hosts && *ranks > 0 && *hosts > 0) {
      ranks_ = *ranks;
      hosts_ = *hosts;
    }
    const std::size_t bar = line.find('|');
    if (bar == std::string_view::npos) return;
    const std::string_view name = trimmed(line.substr(0, bar));
    fields_.clear();
    for (std::string_view rest = line.substr(bar + 1); rest.find('|') != std::string_view::npos;) {
      const std::size_t end = rest.find('|');
      fields_.push_back(trimmed(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    if (name == "Algorithm") {
      read_algorithms();
    } else if (name == "Latency/AlgBw") {
      read_pairs();
    } else if (const auto collective = nccl_collective_from_name(name)) {
      read_cells(*collective);
    }
  }
  [[nodiscard]] std::vector<NcclTable> take() { return std::move(tables_); }

 private:
  struct Column {
    std::optional<NcclAlgorithm> algorithm;
    std::optional<NcclProtocol> protocol;
  };

  // Begins a block of columns. A block whose first column is that of the tree begins a new table.
  void begin_block() {
    if (columns_.empty()) return;
    if (columns_.front().algorithm == NcclAlgorithm::kTree || tables_.empty()) {
      tables_.push_back({.ranks = ranks_, .hosts = hosts_, .cells = {}});
    }
  }
  // Reads a heading of algorithms ("Tree", "Ring", ...), each of which has three columns of
  // protocols.
  void read_algorithms() {
    columns_.clear();
    for (const std::string_view field : fields_) {
      for (int p = 0; p < 3; ++p) {
        columns_.push_back({nccl_algorithm_from_name(field), static_cast<NcclProtocol>(p)});
      }
    }
    begin_block();
  }
  // Reads a heading of pairs: "Tree/    LL", "Tree/ LL128", ...
  void read_pairs() {
    columns_.clear();
    for (const std::string_view field : fields_) {
      const std::size_t slash = std::min(field.find('/'), field.size());
      columns_.push_back(
          {nccl_algorithm_from_name(trimmed(field.substr(0, slash))),
           nccl_protocol_from_name(trimmed(field.substr(std::min(slash + 1, field.size()))))});
    }
    begin_block();
  }
  // Reads the cells of one collective: "11.6/  2.4", ...
  void read_cells(Collective collective) {
    if (tables_.empty()) return;
    for (std::size_t i = 0; i < std::min(fields_.size(), columns_.size()); ++i) {
      const std::size_t slash = fields_[i].find('/');
      if (slash == std::string_view::npos || !columns_[i].algorithm || !columns_[i].protocol) {
        continue;
      }
      const auto latency = decimal_of(trimmed(fields_[i].substr(0, slash)));
      const auto bandwidth = decimal_of(trimmed(fields_[i].substr(slash + 1)));
      if (!latency || !bandwidth || *latency == 0.0) continue;
      tables_.back().cells.push_back(
          {collective, *columns_[i].algorithm, *columns_[i].protocol, *latency, *bandwidth});
    }
  }

  std::vector<NcclTable> tables_;
  std::vector<Column> columns_;
  std::vector<std::string_view> fields_;
  std::int64_t ranks_ = 0;
  std::int64_t hosts_ = 0;
};

}  // namespace

std::vector<NcclChoice> read_nccl_choices(std::string_view text) {
  std::vector<NcclChoice> choices;
  for_each_line(text, [&](std::string_view line) {
    if (auto choice = choice_in(line)) choices.push_back(std::move(*choice));
  });
  return choices;
}

std::vector<NcclTable> read_nccl_tables(std::string_view text) {
  TableReader reader;
  for_each_line(text, [&](std::string_view line) { reader.read(line); });
  return reader.take();
}

std::string nccl_version_in_log(std::string_view text) {
  constexpr std::string_view kStart = "NCCL version ";
  std::string version;
  for_each_line(text, [&](std::string_view line) {
    const std::size_t found = line.find(kStart);
    if (!version.empty() || found == std::string_view::npos) return;
    const std::string_view rest = line.substr(found + kStart.size());
    version = rest.substr(0, rest.find_first_not_of("0123456789."));
  });
  return version;
}

}  // namespace shardlab
