// Reads the text that nccl-tests prints.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "costmodel/base/error.h"
#include "costmodel/base/printable.h"
#include "costmodel/base/text.h"
#include "costmodel/measurements/nccl_tests_busbw.h"
#include "costmodel/measurements/nccl_tests_names.h"
#include "costmodel/measurements/nccl_tests_reader.h"
#include "costmodel/measurements/nccl_tests_run.h"

namespace shardlab {
namespace {

using Tokens = std::vector<std::string_view>;

constexpr std::string_view kBlanks = " \t\r\f\v";
constexpr std::string_view kRowForm =
    "size count type [redop] [root] time algbw busbw [#wrong], then the last four in place";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_like_a_number(std::string_view word) {
  return !word.empty() && (is_digit(word[0]) || word[0] == '-' || word[0] == '.');
}
bool is_word_char(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.';
}

Tokens tokens_of(std::string_view text) {
  Tokens tokens;
  for (std::size_t at = text.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    tokens.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  return tokens;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if constexpr (std::is_same_v<Number, double>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

// -- tags of launchers
// -----------------------------------------------------------------------------

// The length of a tag such as "[0]", "[1,0]<stdout>:" or "[STAT]:" at the front of the text; 0 when
// there is none.
std::size_t tag_size(std::string_view text) {
  if (!text.starts_with('[')) return 0;
  const std::size_t close = text.find(']');
  if (close == std::string_view::npos || close < 2) return 0;
  const std::string_view inside = text.substr(1, close - 1);
  if (!std::all_of(inside.begin(), inside.end(), [](char c) { return is_digit(c) || c == ','; })) {
    const std::string_view rest = text.substr(close + 1);
    const bool is_word = std::ranges::all_of(inside, is_word_char);
    if (is_word && rest.starts_with(':')) return close + 2;
    // SageMaker's "[1,mpirank:0,algo-1]<stdout>:".
    const bool is_list =
        std::ranges::all_of(inside, [](char c) { return is_word_char(c) || c == ',' || c == ':'; });
    constexpr std::string_view kStream = "<stdout>:";
    const bool is_of_stream = rest.starts_with(kStream) || rest.starts_with("<stderr>:");
    return is_list && is_of_stream ? close + 1 + kStream.size() : 0;
  }
  std::size_t size = close + 1;
  for (const std::string_view stream : {"<stdout>", "<stderr>", "<stddiag>"}) {
    if (text.substr(size).starts_with(stream)) size += stream.size();
  }
  if (text.substr(size).starts_with(':')) ++size;
  return size;
}

// The length of a time at the front, as `kubectl logs --timestamps` and other collectors write it:
// "2025-03-01T10:11:12.345Z ", "2025-03-01 10:11:12 ", "2025-03-01T10:11:12.345-07:00 stdout F ".
std::size_t time_size(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size()) return 0;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool fits = kForm[i] == '0'   ? is_digit(text[i])
                      : kForm[i] == 'T' ? text[i] == 'T' || text[i] == ' '
                                        : text[i] == kForm[i];
    if (!fits) return 0;
  }
  std::size_t end = kForm.size();
  while (end < text.size() &&
         (is_digit(text[end]) || text[end] == '.' || text[end] == ',' || text[end] == 'Z' ||
          text[end] == '+' || text[end] == '-' || text[end] == ':')) {
    ++end;
  }
  if (end >= text.size() || (text[end] != ' ' && text[end] != '\t')) return 0;
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "}) {
    if (text.substr(end + 1).starts_with(stream)) return end + 1 + stream.size();
  }
  return end + 1;
}

constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
constexpr std::string_view kDays = "MonTueWedThuFriSatSun";

bool is_clock(std::string_view word) {
  constexpr std::string_view kForm = "00:00:00";
  if (word.size() < kForm.size()) return false;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    if (kForm[i] == '0' ? !is_digit(word[i]) : word[i] != ':') return false;
  }
  return std::all_of(word.begin() + kForm.size(), word.end(),
                     [](char c) { return is_digit(c) || c == '.' || c == ','; });
}

bool is_name_of(std::string_view names, std::string_view word) {
  const std::size_t at = word.size() == 3 ? names.find(word) : std::string_view::npos;
  return at != std::string_view::npos && at % 3 == 0;
}

// The length of a date in words at the front: "Jan 01 10:11:12 HOST PROGRAM[123]: " of syslog, and
// "Mon Jan  1 10:11:12 2026" of Open MPI, which the tag of a rank follows.
std::size_t dated_size(std::string_view text) {
  const Tokens words = tokens_of(text.substr(0, 160));
  const auto end_of = [&](std::size_t i) {
    return static_cast<std::size_t>(words[i].data() + words[i].size() - text.data());
  };
  if (words.size() >= 5 && is_name_of(kMonths, words[0]) && number_of<int>(words[1]) &&
      is_clock(words[2]) && words[4].ends_with(':')) {
    return end_of(4);
  }
  constexpr std::size_t kYear = 4;
  if (words.size() >= 5 && is_name_of(kDays, words[0]) && is_name_of(kMonths, words[1]) &&
      number_of<int>(words[2]) && is_clock(words[3]) && words[4].size() > kYear &&
      number_of<int>(words[4].substr(0, kYear)) && words[4][kYear] == '[') {
    return static_cast<std::size_t>(words[4].data() - text.data()) + kYear;
  }
  return 0;
}

// The length of a level that a logger writes behind the time: "INFO ", "[INFO] ", "INFO: ".
std::size_t level_size(std::string_view text) {
  const Tokens words = tokens_of(text.substr(0, 16));
  if (words.empty() || words[0].data() != text.data()) return 0;
  const std::string_view word = trimmed(words[0], "[]:-");
  for (const std::string_view level : {"INFO", "DEBUG", "WARNING", "ERROR", "NOTICE"}) {
    if (word == level) return words[0].size();
  }
  return 0;
}

// The length of any other prefix that a collector puts before a line, such as "[pod/run-0/nccl] ",
// "[2025-03-01 10:11:12] ", "[10:11:12] ", "worker-0  | " or "> "; 0 if what follows is neither a
// line of nccl-tests, which begins with "#" or a digit, nor another prefix in brackets.
std::size_t prefix_size(std::string_view text) {
  std::size_t end = 0;
  if (text.starts_with('[')) {
    end = text.find(']');
    if (end == std::string_view::npos) return 0;
    const std::string_view inside = text.substr(1, end - 1);
    const bool is_path =
        std::ranges::all_of(inside, [](char c) { return is_word_char(c) || c == '/'; });
    if (!is_path && !is_clock(inside) && time_size(std::string(inside) + " ") != inside.size() + 1)
      return 0;
  } else if (text.starts_with('>')) {
    end = 0;
  } else {
    while (end < text.size() && is_word_char(text[end])) ++end;
    end = end == 0 ? text.size() : text.find_first_not_of(kBlanks, end);
    if (end >= text.size() || text[end] != '|') return 0;
  }
  const std::size_t next = text.find_first_not_of(kBlanks, end + 1);
  if (next == std::string_view::npos || next == end + 1) return 0;
  return text[next] == '#' || is_digit(text[next]) || text[next] == '[' ? next : 0;
}

// Where a line of nccl-tests' header begins, with its "#": at the front, or behind other text if it
// has the form of such a line, since no list of prefixes is complete, and ranks share a terminal;
// npos if there is none.
std::size_t header_at(std::string_view line) {
  if (line.starts_with('#')) return 0;
  for (std::size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
    const std::string_view text = trimmed(line.substr(at + 1), kBlanks);
    const Tokens words = tokens_of(text.substr(0, 160));
    const auto begins = [&](std::initializer_list<std::string_view> form) {
      return words.size() >= form.size() && std::equal(form.begin(), form.end(), words.begin());
    };
    const bool is_device = begins({"Rank"}) && words.size() > 3 && number_of<int>(words[1]) &&
                           std::ranges::find(words, "on") != words.end();
    if (is_device || begins({"nThread"}) || begins({"Using", "devices"}) ||
        begins({"Collective", "test", "starting:"}) || begins({"nccl-tests", "version"}) ||
        begins({"size", "count", "type"}) || begins({"(B)", "(elements)"}) ||
        begins({"Out", "of", "bounds", "values"}) || begins({"Avg", "bus", "bandwidth"})) {
      return at;
    }
  }
  return std::string_view::npos;
}

// The line without the colours of a terminal: "\x1b[0;32m".
std::string without_colours(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    const std::size_t at = std::min(line.find("\x1b["), line.size());
    out += line.substr(0, at);
    const std::size_t end = line.find_first_not_of("0123456789;", std::min(at + 2, line.size()));
    line = end == std::string_view::npos ? std::string_view() : line.substr(end + 1);
  }
  return out;
}

// The length of a label, a word and a colon in front of what the tool prints: "3: # Rank" (srun
// --label), "launcher-0: 8 2 float".
std::size_t label_size(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_word_char(text[end])) ++end;
  if (end == 0 || end >= text.size() || text[end] != ':') return 0;
  const std::size_t next = text.find_first_not_of(kBlanks, end + 1);
  if (next == std::string_view::npos || next == end + 1) return 0;
  return text[next] == '#' || is_digit(text[next]) ? next : 0;
}

std::string_view without_tags(std::string_view line) {
  line = trimmed(line, kBlanks);
  while (true) {
    std::size_t size = std::max(
        {tag_size(line), label_size(line), time_size(line), prefix_size(line), dated_size(line)});
    if (size == 0) return line;
    if (time_size(line) == size) size += level_size(line.substr(size));
    line = trimmed(line.substr(size), kBlanks);
  }
}

// The words of a row, without the tags that the output of other ranks left between them or on them.
Tokens row_tokens(std::string_view line) {
  Tokens out;
  for (std::string_view token : tokens_of(line)) {
    token.remove_prefix(tag_size(token));
    if (const std::size_t open = token.rfind('[');
        open != std::string_view::npos && tag_size(token.substr(open)) == token.size() - open) {
      token = token.substr(0, open);
    }
    if (!token.empty()) out.push_back(token);
  }
  return out;
}

// Whether a line of NCCL's own log, "HOST:PID:TID [0] NCCL INFO ...", begins within this one: ranks
// share a terminal, and nccl-tests prints a row in two parts.
bool holds_line_of_nccl(const Tokens& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "NCCL") continue;
    for (const std::string_view level : {"INFO", "WARN", "TRACE", "VERSION"}) {
      if (words[i + 1] == level) return true;
    }
  }
  return false;
}

// -- rows and tables

struct Layout {
  bool is_known = false;
  bool has_redop = false;
  bool has_root = false;
  int sides = 0;     // 1: only out of place; 2: out of place and in place
  int per_side = 0;  // numbers of one side
  [[nodiscard]] std::size_t numbers() const {
    return static_cast<std::size_t>(sides * per_side) + (has_root ? 1 : 0);
  }
};

// A row whose table's collective is not yet known.
struct RawRow {
  MeasuredRow row;
  double count = 0.0;
  bool has_reduction = false;
  std::string redop;  // as the row has it; "" without the column, or where it is blank
  std::optional<int> root;
  std::optional<Collective> collective;
  std::string unsupported;  // a collective that shardlab does not price
  struct Bandwidths {
    std::string place;  // "", "in place: "
    PrintedFigure algbw;
    PrintedFigure busbw;
  };
  std::vector<Bandwidths> bandwidths;
};

// The GPUs that a process drives, as far as all mentions of a file agree.
class GpusOfProcess {
 public:
  void note(std::optional<std::int64_t> threads, std::optional<std::int64_t> gpus) {
    constexpr std::int64_t kMost = std::int64_t{1} << 20;
    const bool sane =
        threads && gpus && *threads > 0 && *gpus > 0 && *threads <= kMost && *gpus <= kMost;
    const std::int64_t count = sane ? *threads * *gpus : kDisputed;
    count_ = count_ == 0 || count_ == count ? count : kDisputed;
  }
  [[nodiscard]] std::optional<std::int64_t> get() const {
    return count_ > 0 ? std::optional(count_) : std::nullopt;
  }

 private:
  static constexpr std::int64_t kDisputed = -1;
  std::int64_t count_ = 0;
};

// The program of nccl-tests that a line names: all_reduce in "mpirun build/all_reduce_perf -b 8".
struct Program {
  std::string name;
  std::size_t at = 0;       // where the last part of its path begins in the line
  bool is_command = false;  // whether the program's options follow it, or "..." in their place
};

bool is_path_char(char c) { return is_word_char(c) || c == '/'; }

// The name in the last part of a path that ends in "_perf" or, as some builds do, in "_perf_mpi";
// "" for any other path.
std::string_view program_name(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t end = name.rfind("_perf");
  if (end == std::string_view::npos || end == 0) return "";
  const std::string_view suffix = name.substr(end + 5);
  return suffix.empty() || (suffix[0] == '_' && suffix.find('.') == std::string_view::npos)
             ? name.substr(0, end)
             : "";
}

// Whether nccl-tests has a test of that name.
bool is_test_name(std::string_view name) {
  return nccl_collective_from_name(name) || name == "reduce" || name == "gather" ||
         name == "hypercube";
}

// The last program that options follow, or else the last one. A directory on the way to a program
// may have such a name, too, and so may a word of a launcher's message.
std::optional<Program> program_in(std::string_view line) {
  std::optional<Program> found;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (!is_path_char(line[at])) continue;
    std::size_t end = at;
    while (end < line.size() && is_path_char(line[end])) ++end;
    const std::string_view path = trimmed(line.substr(at, end - at), ".");
    const std::string_view name = program_name(path);
    const std::string_view rest = trimmed(line.substr(end), " \t\"'");
    at = end;
    if (name.empty()) continue;
    const bool has_options = rest.size() > 1 && rest[0] == '-' && rest[1] != ' ';
    const bool is_command = has_options || rest.starts_with("...") || rest == "\\";
    if (found && found->is_command && !is_command) continue;
    found = {std::string(name), static_cast<std::size_t>(name.data() - line.data()), is_command};
  }
  return found;
}

class TextReader {
 public:
  TextReader(const SourceHints& hints, std::string_view file) : hints_(hints), file_(file) {}

  MeasurementSet read(std::string_view text) {
    set_.name = set_name_of(file_);
    set_.source = hints_.source;
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      is_cut_ = end == std::string_view::npos;
      const std::string line = without_colours(text.substr(0, end));
      read_line(without_tags(line));
      text = is_cut_ ? std::string_view() : text.substr(end + 1);
    }
    return finish();
  }

 private:
  // A NUL byte would end the message, so bytes that are not text are written as \x00.
  [[noreturn]] void fail_at(int line, const std::string& message) const {
    throw ConfigError(file_, "line " + std::to_string(line), printable(message));
  }
  [[noreturn]] void fail(const std::string& message) const { fail_at(line_, message); }

  void read_line(std::string_view line) {
    if (line.empty()) return;
    note_program(line);
    if (!line.starts_with('#')) {
      note_options(line);
      note_environment(line);
      note_failure(line);
    }
    if (const std::size_t header = header_at(line); header != std::string_view::npos) {
      line.remove_prefix(header);
      read_header(
          trimmed(line.substr(std::min(line.find_first_not_of('#'), line.size())), kBlanks));
    } else if (const std::size_t at = line.find("NCCL version "); at != std::string_view::npos) {
      note_version(tokens_of(line.substr(at + 13)));
    } else {
      const Tokens words = row_tokens(line);
      note_banner(words);
      read_row(words);
    }
  }

  // Notes a line that holds the name of a collective alone: "=== alltoall ===".
  void note_banner(const Tokens& words) {
    if (is_stated_) return;
    std::vector<std::string_view> names;
    for (const std::string_view word : words) {
      if (std::ranges::any_of(word, is_word_char)) names.push_back(word);
    }
    if (names.size() == 1 && nccl_collective_from_name(names[0])) state(names[0]);
  }

  // Notes the program that a line names: a command from here on, other text only until a command
  // says something else. Such text within a table is not about it, so it waits for the next table.
  void note_program(std::string_view line) {
    const std::optional<Program> program = program_in(line);
    if (!program) return;
    note_settings(program->is_command ? line : line.substr(0, program->at));
    if (is_stated_) return;
    if (program->is_command) return state(program->name);
    if (!is_test_name(program->name)) return;
    const bool is_named = collective_ || !unsupported_.empty();
    if (has_rows_) {
      mentioned_ = program->name;
    } else if (is_mentioned_ || !is_named) {
      state(program->name);
      is_mentioned_ = true;
    }
  }

  // Begins a table, which is that of a program that was mentioned behind the last one.
  void begin_table() {
    if (mentioned_.empty()) return;
    state(std::string(mentioned_));
    is_mentioned_ = true;
  }

  // Notes the settings that the health depends on where no program stands in the line: in one line
  // of a longer command, after `export`, or in NCCL's own words.
  void note_environment(std::string_view line) {
    note_judged_settings(line, set_);
    constexpr std::string_view kSet = " set by environment to ";
    for (const std::string_view name : kJudgedSettings) {
      const std::size_t at = line.find("NCCL INFO " + std::string(name) + std::string(kSet));
      if (at == std::string_view::npos) continue;
      std::string_view value = line.substr(line.find(kSet, at) + kSet.size());
      value = value.substr(0, value.find_first_of(kBlanks));
      if (value.ends_with('.')) value.remove_suffix(1);
      note_setting(name, value, set_);
    }
    if (line.find("NCCL INFO Using network Socket") != std::string_view::npos) {
      note_setting("NCCL_NET", "Socket", set_);
    }
  }

  static std::optional<std::int64_t> least_of(const std::optional<std::int64_t>& known,
                                              const std::optional<std::int64_t>& count) {
    return known && count ? std::min(known, count) : std::max(known, count);
  }

  // Notes that the test stopped before its end.
  void note_failure(std::string_view line) {
    if (has_failed_) return;
    for (const std::string_view what : {"Test NCCL failure", "Test CUDA failure", "Test failure"}) {
      if (line.find(what) == std::string_view::npos) continue;
      has_failed_ = true;
      set_.warnings.push_back("line " + std::to_string(line_) + ": nccl-tests stopped here (" +
                              std::string(what) + "), so larger sizes are missing");
      return;
    }
  }

  // Notes the last lines of a run that say that its results are wrong or too slow: "Out of bounds
  // values : 12 FAILED", "Avg bus bandwidth : 3.2 FAILED".
  void note_verdict(std::string_view line) {
    const bool is_verdict =
        line.starts_with("Out of bounds values") || line.starts_with("Avg bus bandwidth");
    if (!is_verdict || !line.ends_with("FAILED")) return;
    set_.warnings.push_back("line " + std::to_string(line_) + ": nccl-tests says " +
                            in_quotes(line));
  }

  // Warns where a table ends before the largest size that its header says.
  void check_end() {
    if (has_failed_ || largest_ <= 0.0 || !most_bytes_) return;
    const double next = step_factor_ ? largest_ * *step_factor_ : largest_ + step_bytes_;
    if (next > *most_bytes_ || next <= largest_) return;
    set_.warnings.push_back("the table ends at " + format_bytes(largest_) +
                            ", but its header says maxBytes " + format_bytes(*most_bytes_) +
                            "; the run ended early, or rows are missing");
  }

  // Notes the NCCL_*= settings of a command line.
  void note_settings(std::string_view line) {
    for (std::string_view word : tokens_of(line)) {
      while (!word.empty() && (word[0] == '(' || word[0] == '"' || word[0] == '\'')) {
        word.remove_prefix(1);
      }
      while (!word.empty() && (word.back() == ')' || word.back() == '"' || word.back() == '\'')) {
        word.remove_suffix(1);
      }
      const std::size_t equals = word.find('=');
      if (!word.starts_with("NCCL_") || equals == std::string_view::npos) continue;
      note_setting(word.substr(0, equals), word.substr(equals + 1), set_);
    }
  }

  // Reads how many GPUs a process drives from the options of a program in a command line: -t
  // threads of -g GPUs, both 1 by default. An elided command says nothing.
  void note_options(std::string_view line) {
    const std::optional<Program> program = program_in(line);
    if (!program || !program->is_command) return;
    const Tokens words = tokens_of(line.substr(program->at));
    if (line.find("...", program->at) != std::string_view::npos) return;
    const auto option = [&](std::string_view name,
                            std::string_view long_name) -> std::optional<std::int64_t> {
      for (std::size_t i = 1; i < words.size(); ++i) {
        std::string_view value;
        if (words[i] == name || words[i] == long_name) {
          value = i + 1 < words.size() ? words[i + 1] : std::string_view();
        } else if (words[i].starts_with(name)) {
          value = words[i].substr(name.size());
        } else if (words[i].starts_with(long_name) && words[i][long_name.size()] == '=') {
          value = words[i].substr(long_name.size() + 1);
        } else {
          continue;
        }
        return number_of<std::int64_t>(value);
      }
      return 1;
    };
    per_process_of_commands_.note(option("-t", "--nthreads"), option("-g", "--ngpus"));
  }

  void state(std::string_view name) {
    collective_ = nccl_collective_from_name(name);
    unsupported_ = collective_ ? "" : std::string(name);
    has_rows_ = false;
    is_mentioned_ = false;
    mentioned_.clear();
  }

  void note_version(const Tokens& words) {
    if (!words.empty() && set_.nccl_version.empty()) {
      set_.nccl_version = std::string(words[0].substr(0, words[0].find('+')));
    }
  }

  void read_header(std::string_view line) {
    const Tokens words = tokens_of(line);
    if (words.empty()) return;
    if (words[0] == "Rank" || words[0] == "Using") {
      read_device(line, words);
    } else if (line.starts_with("Collective test starting:")) {
      state(trimmed(line.substr(line.find(':') + 1), kBlanks));
    } else if (words[0] == "nccl-tests") {
      for (const std::string_view word : words) {
        if (!word.starts_with("nccl-library=")) continue;
        if (const auto code = number_of<std::int64_t>(word.substr(13)); code && *code > 0) {
          if (set_.nccl_version.empty()) set_.nccl_version = version_of_code(*code);
        }
      }
    } else if (words[0] == "size" || line.starts_with("columns:")) {
      read_columns(line);
    } else if (words[0] == "(B)") {
      for (const std::string_view unit : {"(ms)", "(s)", "(ns)"}) {
        if (std::find(words.begin(), words.end(), unit) != words.end()) {
          fail("found times in " + std::string(unit) + "; valid: (us)");
        }
      }
    } else {
      note_verdict(line);
      if (line.starts_with("Blocking Enabled")) run_.is_blocking = true;
      if (const std::size_t at = line.find("nThread "); at != std::string_view::npos) {
        read_settings(tokens_of(line.substr(at)));
        // The table of a raw log begins here; the next lines say which collective it is for, or the
        // command line did, after the rows before.
        if (at == 0) layout_ = {};
        if (at == 0 && has_rows_ && !is_stated_) {
          collective_.reset();
          unsupported_.clear();
        }
        if (at == 0) begin_table();
      }
      read_key(line);
    }
  }

  // Reads "Rank  0 Group  0 Pid 123 on HOST device  0 [0x18] NVIDIA H100 80GB HBM3".
  void read_device(std::string_view line, const Tokens& words) {
    if (words[0] == "Using") {
      settle_devices();
      return;
    }
    const auto after = [&](std::string_view word) {
      const auto it = std::find(words.begin(), words.end(), word);
      return it == words.end() || it + 1 == words.end() ? std::string_view() : *(it + 1);
    };
    const auto rank = number_of<std::int64_t>(after("Rank"));
    if (!rank || *rank < 0 || *rank >= kMaxRanks || after("on").empty()) return;
    const std::size_t name = line.find("] ");
    const std::size_t bus = line.find('[');
    Device device;
    device.host = after("on");
    if (name != std::string_view::npos) {
      device.name = trimmed(line.substr(name + 2), kBlanks);
      const std::string_view on_bus =
          bus < name ? line.substr(bus, name - bus) : std::string_view();
      device.place = std::string(after("device")) + " " + std::string(on_bus);
    }
    device.process = after("Pid");
    device.group = after("Group");
    if (devices_.empty()) devices_line_ = line_;
    if (!devices_.emplace(*rank, device).second && !is_repeat_warned_) {
      is_repeat_warned_ = true;
      set_.warnings.push_back("line " + std::to_string(line_) + ": rank " + std::to_string(*rank) +
                              " is listed twice in the device list; nccl-tests built without MPI "
                              "measures each process alone");
    }
  }

  // Ends a list of devices. All lists of a file must be of one layout, since the rows of a set are.
  void settle_devices() {
    if (devices_.empty()) return;
    if (run_.devices.empty()) {
      run_.devices = std::move(devices_);
      first_devices_line_ = devices_line_;
    } else if (!have_one_layout(run_.devices, devices_)) {
      fail_at(devices_line_, "found a list of " + layout_text(devices_) + ", after one of " +
                                 layout_text(run_.devices) + " in line " +
                                 std::to_string(first_devices_line_) +
                                 "; valid: runs of one layout in a file, so a file for each");
    }
    devices_.clear();
  }

  void read_columns(std::string_view line) {
    begin_table();
    std::string columns(line);
    std::replace(columns.begin(), columns.end(), '|', ' ');
    layout_ = {};
    bool has_wrong = false;
    int extra = 0;
    for (std::string_view word : tokens_of(columns)) {
      word = word.substr(0, word.find('('));
      if (word == "redop") layout_.has_redop = true;
      if (word == "root") layout_.has_root = true;
      if (word == "algbw") ++layout_.sides;
      if (word == "#wrong" || word == "wrong" || word == "error" || word == "wrong/error") {
        has_wrong = true;
      }
      if (word.starts_with("i_")) ++extra;
      if (word == "cputime") {
        fail("found the column cputime (-C 1), the time to launch; valid: time");
      }
    }
    layout_.is_known = layout_.sides > 0;
    if (layout_.is_known) layout_.per_side = 3 + (has_wrong ? 1 : 0) + extra / layout_.sides;
  }

  // Reads "nThread 1 nGpus 8 ... warmup iters: 5 iters: 20 agg iters: 1 ...".
  void read_settings(const Tokens& words) {
    iterations_.reset();
    check_end();
    has_failed_ = false;  // these settings are those of another run
    largest_ = 0.0;
    most_bytes_.reset();
    step_factor_.reset();
    step_bytes_ = 0.0;
    if (words.size() > 3 && words[2] == "nGpus") {
      per_process_of_headers_.note(number_of<std::int64_t>(words[1]),
                                   number_of<std::int64_t>(words[3]));
    }
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
      if (words[i] == "maxBytes") most_bytes_ = number_of<double>(words[i + 1]);
      if (words[i] == "step:") read_step(words[i + 1]);
      const auto count = number_of<std::int64_t>(words[i + 1]);
      if (words[i] == "graph:" && count.value_or(0) > 0) run_.uses_graphs = true;
      if (words[i] != "iters:") continue;
      if (words[i - 1] == "warmup") {
        run_.warmup = least_of(run_.warmup, count);
      } else if (words[i - 1] == "agg") {
        run_.aggregated = std::max(run_.aggregated, count);
      } else if (count && *count > 0) {
        iterations_ = count;
      }
    }
  }

  // Reads "2(factor)" or "1048576(bytes)".
  void read_step(std::string_view word) {
    const std::size_t open = word.find('(');
    const auto step = number_of<double>(word.substr(0, open));
    if (!step || open == std::string_view::npos) return;
    if (word.substr(open) == "(factor)") step_factor_ = step;
    if (word.substr(open) == "(bytes)") step_bytes_ = *step;
  }

  void read_key(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string_view key = trimmed(line.substr(0, colon), kBlanks);
    const std::string_view value = trimmed(line.substr(colon + 1), kBlanks);
    const bool is_stated = !value.empty() && value != "not stated";
    const auto text = [&](std::string& into) {
      if (is_stated) into += (into.empty() ? "" : "; ") + std::string(value);
    };
    const auto integer = [&](std::optional<std::int64_t>& into) {
      const auto number = number_of<std::int64_t>(value);
      if (!number || *number < 1 || *number > kMaxRanks) {
        fail("found " + in_quotes(value) + " after \"" + std::string(key) +
             ":\"; valid: an integer from 1 to " + std::to_string(kMaxRanks));
      }
      if (into && *into != *number) {
        fail("found " + std::to_string(*number) + " after \"" + std::string(key) + ":\", but " +
             std::to_string(*into) + " earlier; valid: the same number throughout the file");
      }
      into = number;
    };
    if (key == "ranks") return integer(run_.ranks);
    if (key == "nodes" || key == "hosts") return integer(run_.hosts);
    if (key == "gpus_per_node" || key == "gpus_per_host") return integer(run_.gpus_per_host);
    if (key == "collective") {
      is_stated_ = true;
      return state(value);
    }
    if (key == "health") {
      const auto health = health_from_name(value);
      if (!health) {
        fail("found " + in_quotes(value) +
             " after \"health:\"; valid: healthy, unhealthy, unknown, normal, suspect");
      }
      set_.health = *health;
      return;
    }
    if (key == "gpu") return text(set_.gpu);
    if (key == "source") return text(set_.source);
    if (key == "date") return text(set_.date);
    if (key == "interconnect_intra" || key == "intra") return text(set_.intra);
    if (key == "interconnect_inter" || key == "inter") return text(set_.inter);
    if (key == "nccl_version") return text(set_.nccl_version);
    if (key == "settings") return text(set_.settings);
    if (key == "gpus_per_process") return integer(run_.gpus_per_process);
    if (key == "command") {
      note_options(value);
      return note_settings(value);
    }
    if (key == "notes") return text(set_.notes);
  }

  // The layout of a table without a header, from the words of its first row; nothing if they fit no
  // layout.
  static std::optional<Layout> layout_of(const Tokens& words) {
    Layout layout;
    layout.is_known = true;
    std::size_t at = 3;
    if (at < words.size() && !number_of<double>(words[at]) && !is_not_available(words[at])) {
      layout.has_redop = true;
      ++at;
    }
    std::size_t numbers = words.size() - at;
    // Both sides have the same number of figures, so an odd number of them includes the root.
    layout.has_root = numbers % 2 == 1;
    if (layout.has_root) --numbers;
    if (numbers != 6 && numbers != 8 && numbers != 16) return std::nullopt;
    layout.sides = 2;
    layout.per_side = static_cast<int>(numbers / 2);
    return layout;
  }

  [[nodiscard]] bool has_rows_length(const Tokens& words) const {
    const std::optional<Layout> layout = layout_.is_known ? layout_ : layout_of(words);
    return layout && words.size() == 3 + (layout->has_redop ? 1U : 0U) + layout->numbers();
  }

  // Whether a line has the shape of a row, apart from its size and count: one of the tool's types,
  // followed by as many numbers as the table has columns. No line of a launcher or of NCCL has that
  // shape.
  [[nodiscard]] bool is_of_rows_shape(const Tokens& words) const {
    if (words.size() < 4 || our_dtype(words[2]).empty() || !has_rows_length(words)) return false;
    const Layout layout = layout_.is_known ? layout_ : layout_of(words).value();
    const std::ptrdiff_t fixed = layout.has_redop ? 4 : 3;
    return std::all_of(words.begin() + fixed, words.end(), [](std::string_view word) {
      return number_of<double>(word) || is_not_available(word);
    });
  }

  // The row at the end of a line that starts with other text, such as a line of NCCL's log that
  // another rank wrote into it.
  [[nodiscard]] std::optional<Tokens> row_at_end(const Tokens& words) const {
    // In words. Only the rows of -I are longer, and they start their lines.
    constexpr std::size_t kLongestRow = 64;
    const std::size_t first = words.size() > kLongestRow ? words.size() - kLongestRow : 1;
    for (std::size_t at = first; at + 4 < words.size(); ++at) {
      const Tokens row(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
      if (number_of<std::uint64_t>(row[0]) && number_of<std::uint64_t>(row[1]) &&
          is_of_rows_shape(row)) {
        return row;
      }
    }
    return std::nullopt;
  }

  void read_row(Tokens words) {
    if (words.size() < 2)
      return;  // a row that is cut off after one number looks like any other text
    const auto size = number_of<std::uint64_t>(words[0]);
    const auto count = number_of<std::uint64_t>(words[1]);
    // Option -S appends a date and a time to each row; both are dropped here.
    while (words.size() > 3 && words.back().size() >= 8 &&
           (words.back()[2] == ':' || words.back()[4] == '-') && is_digit(words.back()[0])) {
      words.pop_back();
    }
    if (!size || !count) {
      if (const auto row = row_at_end(words)) return read_row(*row);
      if (is_of_rows_shape(words)) {
        fail("found " + in_quotes(words[size ? 1 : 0]) + " in column " + (size ? "2" : "1") +
             "; valid: a whole number of " + (size ? "elements" : "bytes") + " (" +
             std::string(kRowForm) + ")");
      }
      return;
    }
    // Two numbers above all tables, and three ahead of fewer or more than a row's columns, belong
    // to another tool: ib_write_bw prints "65536 5000 92.42 92.40 0.176230".
    if (words.size() == 2 && !layout_.is_known) return;
    if (words.size() > 2 && !has_rows_length(words) && starts_like_a_number(words[2])) {
      // The first number may be that of the line, as `nl` and `cat -n` print it.
      if (const auto row = row_at_end(words)) read_row(*row);
      return;
    }
    if (cut_) fail_at(cut_->first, cut_->second);
    if (words.size() == 2) return cut("found " + std::to_string(words.size()) + " columns");
    const std::string_view dtype = our_dtype(words[2]);
    if (!dtype.empty() && holds_line_of_nccl(words)) {
      ++seen_;
      return set_.refused.push_back({line_, "a line of NCCL's log cuts the row"});
    }
    if (dtype.empty()) {
      if (is_cut_ && words.size() == 3) return cut("found a type " + in_quotes(words[2]));
      fail("found the type " + in_quotes(words[2]) + "; valid: " + dtype_list());
    }
    if (!layout_.is_known) {
      const auto layout = layout_of(words);
      if (!layout) {
        return cut("found " + std::to_string(words.size()) +
                   " columns; valid: " + std::string(kRowForm));
      }
      layout_ = *layout;
    }
    std::size_t fixed = 3 + (layout_.has_redop ? 1U : 0U);
    std::size_t expected = fixed + layout_.numbers();
    // Old versions leave the column redop of an all-to-all blank.
    if (layout_.has_redop && words.size() + 1 == expected && number_of<double>(words[3])) {
      --fixed;
      --expected;
    }
    if (words.size() < expected) {
      return cut("found " + std::to_string(words.size()) +
                 " columns; valid: " + std::to_string(expected) + ", as the table's header says");
    }
    if (words.size() > expected) {
      fail("found " + std::to_string(words.size()) +
           " columns; valid: " + std::to_string(expected) + ", as the table's header says");
    }
    std::vector<std::optional<double>> numbers;
    for (std::size_t i = fixed; i < words.size(); ++i) {
      const auto number = number_of<double>(words[i]);
      if (!number && !is_not_available(words[i])) {
        if (is_cut_ && i + 1 == words.size()) return cut("found " + in_quotes(words[i]));
        fail("found " + in_quotes(words[i]) + " in column " + std::to_string(i + 1) +
             "; valid: a number or N/A (" + std::string(kRowForm) + ")");
      }
      numbers.push_back(number);
    }
    keep_row(static_cast<double>(*size), static_cast<double>(*count), dtype, words, numbers);
  }

  void keep_row(double size, double count, std::string_view dtype, const Tokens& words,
                const std::vector<std::optional<double>>& numbers) {
    if (size <= last_) begin_table();
    ++seen_;
    has_rows_ = true;
    last_ = size;
    largest_ = std::max(largest_, size);
    if (size <= 0.0) {
      ++empty_;
      return;
    }
    const std::size_t fixed = words.size() - numbers.size();
    const std::size_t first = layout_.has_root ? 1 : 0;
    const auto side = static_cast<std::size_t>(layout_.per_side);
    const std::optional<double> time = numbers[first];
    if (std::string reason = size_reason(size); !reason.empty()) {
      return set_.refused.push_back({line_, std::move(reason)});
    }
    if (std::string reason = time_reason(time); !reason.empty()) {
      return set_.refused.push_back({line_, std::move(reason)});
    }
    RawRow raw;
    raw.row.dtype = std::string(dtype);
    raw.row.bytes = size;
    raw.row.time_us = *time;
    raw.row.iterations = iterations_;
    raw.row.line = line_;
    for (int s = 0; s < layout_.sides && s < 2; ++s) {
      const std::size_t at = first + static_cast<std::size_t>(s) * side;
      const std::string place = s == 0 ? "" : "in place: ";
      if (std::string reason = in_place_time_reason(numbers[at]); !reason.empty()) {
        return set_.refused.push_back({line_, std::move(reason)});
      }
      if (!numbers[at] || *numbers[at] <= 0.0) continue;
      if (side > 3 && numbers[at + 3]) {
        if (const std::string wrong = wrong_reason(*numbers[at + 3], dtype); !wrong.empty()) {
          return set_.refused.push_back({line_, place + wrong});
        }
      }
      if (numbers[at + 1]) {
        if (const std::string reason = contradiction(size, *numbers[at], *numbers[at + 1]);
            !reason.empty()) {
          return set_.refused.push_back({line_, place + reason});
        }
        if (numbers[at + 2]) {
          raw.bandwidths.push_back({place, PrintedFigure::parse(words[fixed + at + 1]),
                                    PrintedFigure::parse(words[fixed + at + 2])});
        }
      }
      if (s == 1) raw.row.in_place_time_us = numbers[at];
    }
    raw.count = count;
    raw.has_reduction = fixed > 3 && words[3] != "none";
    // Old versions leave the column blank, and some logs have a number there.
    if (fixed > 3 && !number_of<double>(words[3])) raw.redop = std::string(words[3]);
    if (layout_.has_root && numbers[0]) {
      if (std::string reason = root_reason(*numbers[0]); !reason.empty()) {
        return set_.refused.push_back({line_, std::move(reason)});
      }
      raw.root = static_cast<int>(*numbers[0]);
    }
    raw.collective = collective_;
    raw.unsupported = unsupported_;
    rows_.push_back(std::move(raw));
  }

  // Notes that a row ends early. It is assumed to be the end of the log, unless another row
  // follows.
  void cut(const std::string& what) { cut_ = {line_, what}; }

  // Whether a row's own columns show a reduction onto one rank.
  static bool is_reduce(const RawRow& raw) {
    return raw.has_reduction && raw.root && *raw.root >= 0;
  }
  // The collective that a row's own columns show: an all-reduce and a reduce-scatter differ in the
  // count.
  [[nodiscard]] std::optional<Collective> shown_by(const RawRow& raw) const {
    if (!raw.has_reduction || is_reduce(raw)) return std::nullopt;
    const double bytes = raw.count * static_cast<double>(itemsize_of(raw.row.dtype));
    if (bytes == raw.row.bytes) return Collective::kAllReduce;
    if (bytes * static_cast<double>(set_.ranks) == raw.row.bytes) return Collective::kReduceScatter;
    return std::nullopt;
  }

  // Why the row's bus bandwidths cannot be those of this collective among the file's ranks; "" if
  // they can.
  [[nodiscard]] std::string bus_reason(BusBandwidths& bus, Collective kind,
                                       const RawRow& raw) const {
    for (const RawRow::Bandwidths& each : raw.bandwidths) {
      const std::string reason = bus.check(kind, set_.ranks, each.algbw, each.busbw,
                                           static_cast<std::size_t>(raw.row.line));
      if (!reason.empty()) return each.place + reason;
    }
    return "";
  }

  // What was noticed before an error, which may be its reason.
  [[nodiscard]] std::string with_warnings(const std::string& message) const {
    std::string text = message;
    for (const std::string& warning : set_.warnings) text += "; " + warning;
    return text;
  }

  MeasurementSet finish() {
    settle_devices();
    check_end();
    if (cut_) {
      set_.warnings.push_back("line " + std::to_string(cut_->first) +
                              ": the last row is cut off and left out");
    }
    if (seen_ == 0) {
      throw ConfigError(file_, "",
                        "found no row of a table; valid: nccl-tests' text, with rows \"" +
                            std::string(kRowForm) + "\"");
    }
    if (!run_.gpus_per_process) run_.gpus_per_process = per_process_of_headers_.get();
    if (!run_.gpus_per_process) run_.gpus_per_process = per_process_of_commands_.get();
    settle(run_, hints_, set_, [this](const std::string& message) {
      throw ConfigError(file_, "", with_warnings(message));
    });
    if (empty_ > 0) {
      set_.warnings.push_back(std::to_string(empty_) +
                              (empty_ == 1 ? " row of 0 bytes is" : " rows of 0 bytes are") +
                              " left out");
    }
    const std::optional<Collective> in_name = collective_within(set_name_of(file_));
    BusBandwidths bus;
    std::optional<std::pair<int, std::string>> odd_redop;  // the first row with another reduction
    for (RawRow& raw : rows_) {
      const bool is_named =
          raw.collective || hints_.collective || in_name || !raw.unsupported.empty();
      if (!is_named && is_reduce(raw)) raw.unsupported = "reduce";
      if (!raw.unsupported.empty()) {
        set_.refused.push_back(
            {raw.row.line,
             "found the collective " + in_quotes(raw.unsupported) +
                 "; valid: all_gather, all_reduce, reduce_scatter, alltoall, broadcast, "
                 "scatter, sendrecv"});
        continue;
      }
      std::optional<Collective> kind = raw.collective;
      if (!kind) kind = hints_.collective;
      if (!kind) kind = in_name;
      if (!kind) kind = shown_by(raw);
      if (!kind) {
        fail_at(raw.row.line,
                "found nothing that names the table's collective; valid: a line \"# collective: "
                "all_gather\" above it, or a file name that contains it");
      }
      if (set_.ranks == 1) {
        set_.refused.push_back({raw.row.line, "a single rank communicates nothing"});
        continue;
      }
      if (std::string reason = odd_reduction(*kind, raw.redop); !reason.empty() && !odd_redop) {
        odd_redop = {raw.row.line, std::move(reason)};
      }
      if (std::string reason = bus_reason(bus, *kind, raw); !reason.empty()) {
        set_.refused.push_back({raw.row.line, std::move(reason)});
        continue;
      }
      raw.row.collective = *kind;
      set_.rows.push_back(std::move(raw.row));
    }
    if (const auto mistake = bus.mistake()) {
      fail_at(static_cast<int>(mistake->place), mistake->message);
    }
    if (odd_redop) fail_at(odd_redop->first, odd_redop->second);
    std::sort(set_.refused.begin(), set_.refused.end(),
              [](const RefusedRow& a, const RefusedRow& b) { return a.line < b.line; });
    if (set_.rows.empty()) {
      throw ConfigError(
          file_, set_.refused.empty() ? "" : "line " + std::to_string(set_.refused[0].line),
          with_warnings("found no usable row" +
                        (set_.refused.empty() ? std::string() : ": " + set_.refused[0].reason)));
    }
    return std::move(set_);
  }

  const SourceHints& hints_;
  std::string file_;
  int line_ = 0;
  bool is_cut_ = false;  // whether the line ends without a newline
  Layout layout_;
  std::optional<Collective> collective_;
  std::string unsupported_;
  bool is_stated_ = false;
  std::optional<std::int64_t> iterations_;
  Run run_;
  GpusOfProcess per_process_of_headers_;
  GpusOfProcess per_process_of_commands_;
  bool is_mentioned_ = false;  // whether text that is no command named the collective
  std::string mentioned_;      // the program that such text named after the last row; "": none
  bool has_rows_ = false;      // since the collective was last named
  double last_ = 0.0;          // the size of the last row, in bytes
  bool has_failed_ = false;
  double largest_ = 0.0;              // the largest size of the current table so far, in bytes
  std::optional<double> most_bytes_;  // the largest size that the table's header announces
  std::optional<double> step_factor_;
  double step_bytes_ = 0.0;
  Devices devices_;  // the devices of the list that is being read
  int devices_line_ = 0;
  int first_devices_line_ = 0;
  bool is_repeat_warned_ = false;
  std::vector<RawRow> rows_;
  std::size_t seen_ = 0;
  std::size_t empty_ = 0;
  std::optional<std::pair<int, std::string>> cut_;
  MeasurementSet set_;
};

}  // namespace

MeasurementSet read_nccl_tests_text(std::string_view text, const SourceHints& hints,
                                    std::string_view file_name) {
  return TextReader(hints, file_name).read(text);
}

}  // namespace shardlab
