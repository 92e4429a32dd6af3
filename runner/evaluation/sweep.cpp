// Writes each part of a sweep into a file, and merges these files into one.
#include "runner/evaluation/sweep.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "costmodel/base/fields_json.h"
#include "costmodel/base/parallel.h"
#include "runner/base/read_file.h"
#include "runner/base/version.h"
#include "runner/base/write_file.h"
#include "runner/config/read_json.h"
#include "strategies/select/questionnaire.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

// Rows in each block that goes to a part. Status: assumed; enough that neighbouring rows share
// cached prices, and few enough that parts end at about the same time.
constexpr std::size_t kBlock = 64;
constexpr int kMostParts = 9999;

std::string padded(int number) {
  const std::string text = std::to_string(number);
  return std::string(4 - std::min<std::size_t>(text.size(), 4), '0') + text;
}

nlohmann::ordered_json answer_json(const Answer& answer, const Stack& stack) {
  nlohmann::ordered_json json = {{"stack", stack.name},
                                 {"choice", answer.choice},
                                 {"price_us", json_of(answer.price_us)},
                                 {"reference_us", json_of(answer.reference_us)},
                                 {"ties", answer.ties},
                                 {"margin_us", json_of(answer.margin_us)},
                                 {"flips_with_order", answer.flips_with_order}};
  if (!answer.price_us) json["impossible"] = answer.impossible;
  return json;
}

// A file that only this process may write.
class LockedFile {
 public:
  enum class Wait : std::uint8_t { kNo, kYes };
  explicit LockedFile(const fs::path& path, Wait wait = Wait::kNo) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    if (fd_ < 0) fail("can't be opened");
    struct stat about = {};
    if (::fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(fd_);
      throw EnvironmentError(path.string() + ": is no regular file");
    }
    // Some shared folders do not support locks. There the launcher must make sure that no two
    // processes write the same part.
    if (::flock(fd_, wait == Wait::kYes ? LOCK_EX : LOCK_EX | LOCK_NB) != 0 &&
        errno == EWOULDBLOCK) {
      ::close(fd_);
      throw EnvironmentError(path.string() + ": another process is writing it");
    }
  }
  ~LockedFile() { ::close(fd_); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  void cut(std::size_t bytes) {
    if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0 || ::lseek(fd_, 0, SEEK_END) < 0) {
      fail("can't be cut");
    }
  }
  void append(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("can't be written");
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw EnvironmentError(path_.string() + ": " + what + ": " + std::strerror(errno));
  }
  fs::path path_;
  int fd_ = -1;
};

// The complete lines of a text, without their newlines. An incomplete last line is left out.
std::vector<std::string_view> whole_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;) {
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string row_begin(std::size_t row) { return R"({"row":)" + std::to_string(row) + ","; }

constexpr std::string_view kChecksumKey = R"(,"crc32":")";
constexpr std::size_t kChecksumDigits = 8;

std::string checksum(std::string_view text) {
  boost::crc_32_type crc;
  crc.process_bytes(text.data(), text.size());
  std::array<char, kChecksumDigits> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), crc.checksum(), 16);
  const std::string number(digits.data(), end.ptr);
  return std::string(kChecksumDigits - number.size(), '0') + number;
}

// The row with one more key, the checksum of all bytes before that key.
std::string with_checksum(std::string row) {
  const std::string sum = checksum({row.data(), row.size() - 1});
  row.pop_back();
  return row + std::string(kChecksumKey) + sum + "\"}";
}

bool is_whole(std::string_view row) {
  const std::size_t ending = kChecksumKey.size() + kChecksumDigits + 2;
  if (row.size() < ending) return false;
  const std::string_view before = row.substr(0, row.size() - ending);
  return row.substr(before.size()) == std::string(kChecksumKey) + checksum(before) + "\"}";
}

}  // namespace

SweepPart SweepPart::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  SweepPart part;
  const auto number = [&](std::string_view word, int& out) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    return error == std::errc() && end == word.data() + word.size();
  };
  if (slash == std::string_view::npos || !number(text.substr(0, slash), part.part) ||
      !number(text.substr(slash + 1), part.parts) || part.part < 1 || part.parts < part.part ||
      part.parts > kMostParts) {
    throw InputError("--part: found \"" + std::string(text) +
                     "\"; valid: I/N, the I-th of N parts, with N at most " +
                     std::to_string(kMostParts));
  }
  --part.part;
  return part;
}

// Answers the questions of one thread. It has one questionnaire per topology, made when it is first
// needed.
class Sweep::Answers {
 public:
  explicit Answers(const Experiment& experiment)
      : experiment_(experiment), of_topology_(experiment.topologies.size()) {}
  QuestionResult ask(std::size_t topology, const Question& question) {
    std::unique_ptr<Questionnaire>& own = of_topology_[topology];
    if (own == nullptr) {
      own = std::make_unique<Questionnaire>(experiment_.stacks, experiment_.reference,
                                            experiment_.topologies[topology]);
    }
    return own->ask(question);
  }

 private:
  const Experiment& experiment_;
  std::vector<std::unique_ptr<Questionnaire>> of_topology_;
};

Sweep::Sweep(const Experiment& experiment, fs::path folder, SweepPart part)
    : experiment_(experiment),
      folder_(std::move(folder)),
      part_(part),
      digest_(experiment.digest()),
      total_(experiment.questions()),
      per_topology_(total_ / experiment.topologies.size()) {
  for (std::size_t row = 0; row < total_; ++row) {
    if (row / kBlock % static_cast<std::size_t>(part.parts) ==
        static_cast<std::size_t>(part.part)) {
      rows_.push_back(row);
    }
  }
}

Sweep::Place Sweep::place(std::size_t row) const {
  Place place{.topology = row / per_topology_, .suite = 0, .question = row % per_topology_};
  while (place.question >= experiment_.suites[place.suite].questions.size()) {
    place.question -= experiment_.suites[place.suite++].questions.size();
  }
  return place;
}

fs::path Sweep::part_path(int part) const {
  return folder_ / ("part-" + padded(part + 1) + "-of-" + padded(part_.parts) + ".jsonl");
}

std::size_t Sweep::part_rows(int part) const {
  const std::size_t blocks = total_ / kBlock;
  const auto parts = static_cast<std::size_t>(part_.parts);
  const auto own = static_cast<std::size_t>(part);
  std::size_t rows = (blocks / parts + (blocks % parts > own ? 1 : 0)) * kBlock;
  if (blocks % parts == own) rows += total_ % kBlock;
  return rows;
}

nlohmann::ordered_json Sweep::common_head() const {
  nlohmann::ordered_json head = {{"schema", "shardlab/sweep/1"},
                                 {"experiment", experiment_.name},
                                 {"digest", digest_},
                                 {"shardlab", version()},
                                 {"commit", git_commit()}};
  for (const Topology& topology : experiment_.topologies) {
    head["topologies"].push_back(topology.name());
  }
  for (const Suite& suite : experiment_.suites) head["suites"].push_back(suite.name);
  for (const Stack& stack : experiment_.stacks) head["stacks"].push_back(stack.name);
  head["reference"] = experiment_.reference.name;
  if (experiment_.seed) head["seed"] = *experiment_.seed;
  return head;
}

std::string Sweep::part_head(int part) const {
  nlohmann::ordered_json head = common_head();
  head["part"] = part + 1;
  head["parts"] = part_.parts;
  head["rows"] = part_rows(part);
  return dumped(head);
}

std::string Sweep::merged_head() const {
  nlohmann::ordered_json head = common_head();
  head["rows"] = total_;
  return dumped(head);
}

std::string Sweep::row_text(std::size_t row, Answers& answers) const {
  const Place at = place(row);
  const Suite& suite = experiment_.suites[at.suite];
  const Question& question = suite.questions[at.question];
  nlohmann::ordered_json json = {{"row", row},
                                 {"topology", experiment_.topologies[at.topology].name()},
                                 {"suite", suite.name},
                                 {"question", question.id},
                                 {"op", question.op()},
                                 {"mesh", question.mesh.text()},
                                 {"bytes", question.bytes()},
                                 {"count", question.count}};
  const QuestionResult result = answers.ask(at.topology, question);
  if (!result.error.empty()) {
    json["not_asked"] = result.error;
    return with_checksum(dumped(json)) + "\n";
  }
  json["best_us"] = json_of(result.best.us);
  json["best_choice"] = result.best.choice;
  json["answers"] = nlohmann::ordered_json::array();
  for (std::size_t s = 0; s < result.answers.size(); ++s) {
    json["answers"].emplace_back(answer_json(result.answers[s], experiment_.stacks[s]));
  }
  return with_checksum(dumped(json)) + "\n";
}

void Sweep::expect_no_other() const {
  const nlohmann::ordered_json own = common_head();
  std::error_code error;
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const bool is_part = name.starts_with("part-") && name.ends_with(".jsonl");
    if (is_part || entry.path() == results()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string line = read_first_line(path);
    if (line.empty()) continue;  // nothing yet: another process has just made the file
    std::optional<nlohmann::json> head = try_parse_json(line);
    if (head && head->is_object()) {
      for (const char* key : {"part", "parts", "rows"}) head->erase(key);
    }
    if (head != nlohmann::json(own)) {
      throw ConfigError(
          path.string(), "",
          "line 1: found another sweep, " + line + "; valid: " + own.dump() + ", or another --out");
    }
  }
}

void Sweep::check_row(const fs::path& path, std::size_t line, std::string_view text,
                      std::size_t row) {
  const auto fail = [&](const std::string& found, const std::string& valid) {
    throw ConfigError(path.string(), "",
                      "line " + std::to_string(line) + ": found " + found + "; valid: " + valid);
  };
  if (!text.starts_with(row_begin(row))) {
    fail(std::string(text.substr(0, 40)), "row " + std::to_string(row));
  }
  if (!is_whole(text)) {
    fail("row " + std::to_string(row) + ", whose bytes do not have its checksum",
         "the row as it was written, or another --out");
  }
}

std::size_t Sweep::run(int threads, bool resume, const Advance& advance,
                       const std::atomic<bool>* stop) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw EnvironmentError(folder_.string() + ": can't be made: " + error.message());
  expect_no_other();
  const fs::path path = part_path(part_.part);
  LockedFile file(path);
  const std::string before = read_text_file(path);
  if (!before.empty() && !resume) {
    throw InputError(path.string() + ": exists already; valid: --resume, or another --out");
  }
  const std::vector<std::string_view> lines = whole_lines(before);
  std::size_t kept_bytes = 0;
  std::size_t done = 0;
  const std::string head = part_head(part_.part);
  if (!lines.empty() && lines[0] != head) {
    throw ConfigError(path.string(), "",
                      "line 1: found another sweep, " + std::string(lines[0]) + "; valid: " + head +
                          ", or another --out");
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > rows_.size()) {
      throw ConfigError(path.string(), "",
                        "line " + std::to_string(i + 1) + ": found " +
                            std::string(lines[i].substr(0, 40)) + "; valid: nothing more");
    }
    if (i > 0) check_row(path, i + 1, lines[i], rows_[i - 1]);
    kept_bytes += lines[i].size() + 1;
    done = i;
  }
  file.cut(kept_bytes);
  if (lines.empty()) file.append(head + "\n");
  advance(done);

  // Blocks are answered in any order but written in the order of their rows.
  const std::size_t left = rows_.size() - done;
  const std::size_t blocks = (left + kBlock - 1) / kBlock;
  std::mutex mutex;
  std::map<std::size_t, std::string> ready;
  std::size_t next = 0;
  parallel_for(
      blocks, threads, [&] { return std::make_unique<Answers>(experiment_); },
      [&](Answers& answers, std::size_t block) {
        std::string text;
        const std::size_t end = std::min(left, (block + 1) * kBlock);
        for (std::size_t i = block * kBlock; i < end; ++i) {
          text += row_text(rows_[done + i], answers);
        }
        const std::lock_guard lock(mutex);
        ready.emplace(block, std::move(text));
        while (!ready.empty() && ready.begin()->first == next) {
          file.append(ready.begin()->second);
          ready.erase(ready.begin());
          ++next;
        }
        advance(end - block * kBlock);
      },
      stop);
  return done;
}

bool Sweep::is_complete(int part) const {
  std::error_code error;
  const fs::path path = part_path(part);
  if (!fs::exists(path, error)) return false;
  const std::string text = read_text_file(path);
  const std::vector<std::string_view> lines = whole_lines(text);
  return text.ends_with('\n') && lines.size() == part_rows(part) + 1 && lines[0] == part_head(part);
}

bool Sweep::is_merged() const {
  std::error_code error;
  return fs::exists(results(), error) && read_first_line(results()) == merged_head();
}

bool Sweep::has_whole_results() const {
  if (!is_merged()) return false;
  const std::string text = read_text_file(results());
  const std::vector<std::string_view> lines = whole_lines(text);
  if (!text.ends_with('\n') || lines.size() != total_ + 1) return false;
  for (std::size_t row = 0; row < total_; ++row) {
    if (!lines[row + 1].starts_with(row_begin(row)) || !is_whole(lines[row + 1])) return false;
  }
  return true;
}

Sweep::Merge Sweep::merge() const {
  for (int part = 0; part < part_.parts; ++part) {
    if (!is_complete(part)) return Merge::kPartsMissing;
  }
  const LockedFile alone(folder_ / "results.lock", LockedFile::Wait::kYes);
  if (has_whole_results()) return Merge::kWasThere;
  std::vector<std::string> texts;
  std::vector<std::size_t> at;  // where the next row of each part begins
  for (int part = 0; part < part_.parts; ++part) {
    texts.push_back(read_text_file(part_path(part)));
    at.push_back(texts.back().find('\n') + 1);
  }
  // Where files can't be locked, two processes may merge at the same time; each then writes a file
  // of its own, with the same bytes.
  write_file(results(), [&](std::ostream& out) {
    out << merged_head() << "\n";
    std::vector<std::size_t> lines(texts.size(), 1);
    for (std::size_t row = 0; row < total_; ++row) {
      const std::size_t part = row / kBlock % texts.size();
      const std::size_t end = std::min(texts[part].find('\n', at[part]), texts[part].size());
      const std::string_view line(texts[part].data() + at[part], end - at[part]);
      check_row(part_path(static_cast<int>(part)), ++lines[part], line, row);
      out << line << "\n";
      at[part] = end + 1;
    }
  });
  return Merge::kMade;
}

nlohmann::json Sweep::summary() const {
  struct Sums {
    std::size_t questions = 0;
    std::size_t ties = 0;
    std::size_t order_dependent = 0;
    bool knows_ties = true;  // recorded choices do not tell
    std::size_t flips = 0;
    std::size_t judged = 0;
    double regret_percent = 0.0;
    std::size_t not_asked = 0;
    std::string reason = {};  // why the first of these was not asked
  };
  std::vector<Sums> sums(experiment_.topologies.size() * experiment_.suites.size() *
                         experiment_.stacks.size());
  const std::string text = read_text_file(results());
  const std::vector<std::string_view> lines = whole_lines(text);
  if (lines.size() != total_ + 1) {
    throw ConfigError(
        results().string(), "",
        "found " + std::to_string(lines.size()) + " lines; valid: " + std::to_string(total_ + 1));
  }
  for (std::size_t row = 0; row < total_; ++row) {
    check_row(results(), row + 2, lines[row + 1], row);
    const nlohmann::json json = parse_json(lines[row + 1], results().string());
    const Place at = place(row);
    const std::size_t first =
        (at.topology * experiment_.suites.size() + at.suite) * experiment_.stacks.size();
    if (json.contains("not_asked")) {
      for (std::size_t s = 0; s < experiment_.stacks.size(); ++s) {
        Sums& own = sums[first + s];
        if (own.not_asked++ > 0) continue;
        own.reason =
            json["question"].get<std::string>() + ": " + json["not_asked"].get<std::string>();
      }
      continue;
    }
    const nlohmann::json& answers = json["answers"];
    for (std::size_t s = 0; s < answers.size(); ++s) {
      Sums& own = sums[first + s];
      const nlohmann::json& answer = answers[s];
      ++own.questions;
      own.ties += answer["ties"].get<std::size_t>() > 1 ? 1U : 0U;
      own.knows_ties = own.knows_ties && answer["ties"] != 0;
      own.order_dependent += answer["flips_with_order"].get<bool>() ? 1U : 0U;
      own.flips += answer["choice"] != answers[0]["choice"] ? 1U : 0U;
      if (answer["reference_us"].is_null() || json["best_us"].is_null()) continue;
      const double best = json["best_us"].get<double>();
      const double own_us = answer["reference_us"].get<double>();
      if (best <= 0.0 && own_us > 0.0) continue;  // there is no ratio to a best choice that is free
      ++own.judged;
      if (best > 0.0) own.regret_percent += 100.0 * (own_us - best) / best;
    }
  }
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Sums& own = sums[i];
    const std::size_t stacks = experiment_.stacks.size();
    const std::size_t suites = experiment_.suites.size();
    out.push_back(
        {{"topology", experiment_.topologies[i / (stacks * suites)].name()},
         {"suite", experiment_.suites[i / stacks % suites].name},
         {"stack", experiment_.stacks[i % stacks].name},
         {"questions", own.questions},
         {"ties", own.knows_ties ? nlohmann::json(own.ties) : nlohmann::json()},
         {"order_dependent",
          own.knows_ties ? nlohmann::json(own.order_dependent) : nlohmann::json()},
         {"flips", own.flips},
         {"mean_regret_percent",
          own.judged > 0 ? nlohmann::json(own.regret_percent / static_cast<double>(own.judged))
                         : nlohmann::json(nullptr)}});
    if (own.not_asked == 0) continue;
    out.back()["not_asked"] = own.not_asked;
    out.back()["first_not_asked"] = own.reason;
  }
  return out;
}

}  // namespace shardlab
