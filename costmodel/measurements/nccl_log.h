// What NCCL chose for each collective, and the table by which it chose, from a log written with
// NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,TUNING.
//
//   for (const NcclChoice& choice : read_nccl_choices(text)) ...
//   // "n1:42:42 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}"
//   // gives {kAllReduce, 4096, "RING", "LL", 0, 1}
//
// Older versions give the algorithm and protocol by number ("Algo 1 proto 2 time 12.3"). Other
// lines are skipped without an error, since a log may hold anything. Source of the format: NCCL's
// public repository, src/enqueue.cc (2.19 to 2.28).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/collective.h"
#include "costmodel/nccl_tuning.h"

namespace shardlab {

struct NcclChoice {
  Collective collective = Collective::kLocal;
  double bytes = 0.0;  // full_bytes
  std::string algorithm;
  std::string protocol;
  std::int64_t first_channel = -1;  // -1 if the line does not say
  std::int64_t last_channel = -1;   // -1 if the line does not say

  friend bool operator==(const NcclChoice&, const NcclChoice&) = default;
};

[[nodiscard]] std::vector<NcclChoice> read_nccl_choices(std::string_view text);

// One cell of the table by which NCCL estimates times for one communicator: a call takes latency +
// bytes / bandwidth, apart from the corrections of models/nccl.cpp. The log prints one decimal.
struct NcclTableCell {
  Collective collective = Collective::kLocal;
  NcclAlgorithm algorithm = NcclAlgorithm::kTree;
  NcclProtocol protocol = NcclProtocol::kLL;
  double latency_us = 0.0;
  double gb_per_s = 0.0;  // at full_bytes; 0 if NCCL may not use the alternative, or prints 0.0

  friend bool operator==(const NcclTableCell&, const NcclTableCell&) = default;
};
struct NcclTable {
  std::int64_t ranks = 0;            // 0 if the log does not say
  std::int64_t hosts = 0;            // 0 if the log does not say
  std::vector<NcclTableCell> cells;  // in the log's order, without cells of latency 0
};
// The tables of a log, in the log's order. Since 2.18 NCCL prints a table in blocks of three
// algorithms; older versions printed it in one block.
[[nodiscard]] std::vector<NcclTable> read_nccl_tables(std::string_view text);
// The version that the log names: "2.28.9" for "NCCL version 2.28.9+cuda13.0"; "" if no line names
// it.
[[nodiscard]] std::string nccl_version_in_log(std::string_view text);

}  // namespace shardlab
