// Answers an experiment's questions row by row. The files that a killed run leaves can be resumed.
//
//   Sweep sweep(experiment, folder, {.part = 0, .parts = 2});
//   sweep.run(threads, resume, progress);
//   if (sweep.merge() == Sweep::Merge::kMade) ...   // whoever finishes last
//
// Row n is question n. Questions are numbered by topology, then by suite, then in the order of the
// suite. A row is one line of JSON, with the same bytes whichever process writes it. Blocks of rows
// are dealt to the parts in turn. A part is one file, FOLDER/part-I-of-N.jsonl:
//   {"schema": "shardlab/sweep/1", "experiment", "digest", "shardlab", "commit", "topologies",
//    "suites", "stacks", "reference", "seed", "part", "parts", "rows"}
//   {"row", "topology", "suite", "question", "op", "mesh", "bytes", "count", "best_us",
//    "best_choice", "answers": [{"stack", "choice", "price_us", "reference_us", "ties",
//    "margin_us", "flips_with_order"}], "crc32"}
// The head has a "seed" only if the experiment has one. A row whose question cannot be asked says
// why in "not_asked", and has neither a best choice nor answers. An answer without a price says why
// in "impossible".
//
// The first line is the head, and the rows follow in their order. A killed run therefore leaves the
// beginning of the file, perhaps with an incomplete last line, which a resumed run cuts off.
// "crc32" is the checksum of the row's bytes in front of this key, in hexadecimal digits. A row
// that does not have its checksum any more is refused. FOLDER/results.jsonl holds the rows of all
// parts in their order, under a head of its own. A file is locked while it is written (flock(2)),
// so that no two processes write the same part. A folder that holds parts of another sweep is
// refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runner/evaluation/experiment.h"

namespace shardlab {

struct SweepPart {
  int part = 0;  // from 0
  int parts = 1;
  // "2/4" is the second of four. Throws InputError.
  [[nodiscard]] static SweepPart parse(std::string_view text);
};

class Sweep {
 public:
  // Keeps a reference to the experiment.
  Sweep(const Experiment& experiment, std::filesystem::path folder, SweepPart part);

  [[nodiscard]] std::size_t rows() const { return rows_.size(); }  // number of rows in this part
  // Answers the rows that are missing, and calls `advance` once per row, from any thread. Once
  // `*stop` is set, no more rows are begun. Returns how many rows were there already. Throws
  // InputError if the file exists and `resume` is false, and ConfigError if it is damaged or
  // belongs to another sweep. Throws EnvironmentError if the file can't be written or another
  // process writes it.
  using Advance = std::function<void(std::size_t rows)>;
  [[nodiscard]] std::size_t run(int threads, bool resume, const Advance& advance,
                                const std::atomic<bool>* stop = nullptr);

  // Writes results.jsonl if all parts are complete, unless it is there and whole.
  enum class Merge : std::uint8_t { kPartsMissing, kMade, kWasThere };
  [[nodiscard]] Merge merge() const;
  // Whether results.jsonl is there and begins as that of this sweep.
  [[nodiscard]] bool is_merged() const;
  [[nodiscard]] std::filesystem::path results() const { return folder_ / "results.jsonl"; }
  // Summarises the merged file: questions, ties, flips against the first stack, and regret for each
  // topology, suite and stack.
  [[nodiscard]] nlohmann::json summary() const;

 private:
  struct Place {
    std::size_t topology = 0;
    std::size_t suite = 0;
    std::size_t question = 0;
  };
  [[nodiscard]] Place place(std::size_t row) const;
  [[nodiscard]] std::filesystem::path part_path(int part) const;
  [[nodiscard]] std::string part_head(int part) const;
  [[nodiscard]] nlohmann::ordered_json common_head() const;
  [[nodiscard]] std::string merged_head() const;
  [[nodiscard]] std::size_t part_rows(int part) const;
  [[nodiscard]] bool is_complete(int part) const;
  [[nodiscard]] bool has_whole_results() const;
  class Answers;
  [[nodiscard]] std::string row_text(std::size_t row, Answers& answers) const;
  // Throws ConfigError if the folder holds a part, or results, of another sweep.
  void expect_no_other() const;
  // Throws ConfigError unless this line of a file is that row, and has its checksum.
  static void check_row(const std::filesystem::path& path, std::size_t line, std::string_view text,
                        std::size_t row);

  const Experiment& experiment_;
  std::filesystem::path folder_;
  SweepPart part_;
  std::string digest_;
  std::size_t total_ = 0;
  std::size_t per_topology_ = 0;
  std::vector<std::size_t> rows_;  // the rows of this part, ascending
};

}  // namespace shardlab
