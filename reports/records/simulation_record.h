// The record of a simulated run: the JSON that `simulate` prints, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/records/run_header.h"

namespace shardlab {
namespace reports {

inline constexpr std::string_view kSimulateKind = "simulate";

struct SimulatedTimes {
  std::optional<double> p50_us, p95_us, max_us;
};

struct SimulatedStep {
  std::string node;
  std::string name;
  std::string change;
  std::optional<double> price_us;
  SimulatedTimes end;
  std::optional<double> wait_us;
  std::int64_t bytes_moved = 0;
  std::optional<double> max_abs_error;
  std::optional<double> low_us = {}, high_us = {};  // the 95 % interval of price_us
};

// What one stream of a rank does for a while: it runs tasks, or it waits.
struct SimulatedBar {
  std::string stream;
  std::string name;  // what runs
  std::int64_t tasks = 1;
  double start_us = 0.0, end_us = 0.0;
  double busy_us = 0.0;  // how long tasks run in it
  std::string waits_for;
};

// What a stream of a rank waits for, all such waits together.
struct SimulatedWait {
  std::string stream;
  std::string waits_for;
  std::int64_t times = 0;
  double us = 0.0;
};

// A rank whose timeline is drawn.
struct SimulatedRank {
  std::int64_t rank = 0;
  std::int64_t host = 0;
  std::string role;  // kRoleAlike, kRoleUsual or kRoleSlowest
  double waits_us = 0.0, delays_us = 0.0, end_us = 0.0;
  std::vector<SimulatedBar> bars;
  std::vector<SimulatedWait> waits;
};
inline constexpr std::string_view kRoleAlike = "alike";
inline constexpr std::string_view kRoleUsual = "usual";
inline constexpr std::string_view kRoleSlowest = "slowest";

struct SimulatedMeshDim {
  std::string name;
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::string link;
  std::optional<double> latency_us, bandwidth_gb_per_s;
};

// How the mesh lies on the hosts of the topology.
struct MeshOnHosts {
  std::string topology;
  std::int64_t devices_per_host = 1;
  std::vector<SimulatedMeshDim> dims;
};

struct SimulationRecord : ResultRecord {
  std::string what;
  std::string mesh;
  std::string stack;
  std::int64_t ranks = 0;
  bool has_data = false;
  std::optional<bool> verified;
  std::string mismatch;
  std::optional<bool> replicas_bitwise_equal;
  std::string refused;
  std::string unpriced;  // why kernels have no price, if they have none
  std::string straggler;
  SimulatedTimes time;
  // The 95 % interval of the median time, if the stack's model of collectives knows its error.
  std::optional<double> low_us = {}, high_us = {};
  std::int64_t bytes_moved = 0;
  std::vector<std::string> notes;
  std::vector<SimulatedStep> steps;
  std::vector<SimulatedRank> timeline;
  std::optional<MeshOnHosts> hosts;

  // Whether every repetition takes the same time, so that a median says nothing.
  [[nodiscard]] bool has_one_time() const {
    return time.p50_us == time.max_us && time.p50_us == time.p95_us;
  }
};

// Throws ConfigError, which names `file` and a JSON pointer that begins with /result.
[[nodiscard]] SimulationRecord read_simulation_record(ResultRecord record, std::string_view file);

}  // namespace reports

template <>
struct Fields<reports::SimulatedTimes> {
  using Self = reports::SimulatedTimes;
  static constexpr std::string_view kName = "quantiles";
  static constexpr std::string_view kMeaning =
      "quantiles over repetitions, in microseconds; null: it did not run";
  static constexpr auto kList =
      std::tuple(field("p50", &Self::p50_us, ""), field("p95", &Self::p95_us, ""),
                 field("max", &Self::max_us, ""));
};

template <>
struct Fields<reports::SimulatedStep> {
  using Self = reports::SimulatedStep;
  static constexpr auto kList = std::tuple(
      field("node", &Self::node, "the node of a program, or empty"),
      field("name", &Self::name, "all_gather, or the op"),
      field("change", &Self::change, "S(0)->R, or empty"), field("price_us", &Self::price_us, ""),
      field("end_us", &Self::end, ""), field("wait_us", &Self::wait_us, ""),
      field("bytes_moved", &Self::bytes_moved, ""),
      field("max_abs_error", &Self::max_abs_error, "null: there was no data"),
      optional_field("low_us", &Self::low_us,
                     "with high_us: where 95 of 100 clusters lie that are like those fitted to"),
      optional_field("high_us", &Self::high_us, ""));
};

template <>
struct Fields<reports::SimulatedBar> {
  using Self = reports::SimulatedBar;
  static constexpr std::string_view kName = "simulated_bar";
  static constexpr std::string_view kMeaning = "what one stream of a rank does for a while";
  static constexpr auto kList = std::tuple(
      field("stream", &Self::stream, ""), field("name", &Self::name, "what runs; empty: it waits"),
      field("tasks", &Self::tasks, "how many tasks the bar stands for"),
      field("start_us", &Self::start_us, ""), field("end_us", &Self::end_us, ""),
      field("busy_us", &Self::busy_us, "how long tasks run between start and end"),
      nullable_text("waits_for", &Self::waits_for,
                    "the rank that arrives last, or the task of another stream; null: it runs"));
};

template <>
struct Fields<reports::SimulatedWait> {
  using Self = reports::SimulatedWait;
  static constexpr std::string_view kName = "simulated_wait";
  static constexpr auto kList =
      std::tuple(field("stream", &Self::stream, ""),
                 field("waits_for", &Self::waits_for,
                       "the rank that arrives last, or the kind of task of another stream"),
                 field("times", &Self::times, ""), field("us", &Self::us, "all of them"));
};

template <>
struct Fields<reports::SimulatedRank> {
  using Self = reports::SimulatedRank;
  static constexpr std::string_view kName = "simulated_rank";
  static constexpr std::string_view kMeaning =
      "a rank whose timeline is drawn, in the first repetition";
  static constexpr auto kList = std::tuple(
      field("rank", &Self::rank, ""), field("host", &Self::host, ""),
      field("role", &Self::role,
            "alike: all ranks run alike; usual: as many ranks wait longer as shorter; slowest: the "
            "others wait longest for it, or it ends last"),
      field("waits_us", &Self::waits_us, "how long it waits for others in collectives"),
      field("delays_us", &Self::delays_us, "how long all others wait for it"),
      field("end_us", &Self::end_us, ""), field("bars", &Self::bars, "stream by stream"),
      field("waits", &Self::waits, "the longest first"));
};

template <>
struct Fields<reports::SimulatedMeshDim> {
  using Self = reports::SimulatedMeshDim;
  static constexpr std::string_view kName = "simulated_mesh_dim";
  static constexpr auto kList = std::tuple(
      field("name", &Self::name, "empty: the mesh names none"),
      field("size", &Self::size, "", {.min = 1}),
      field("stride", &Self::stride, "how far apart the ranks of a group are", {.min = 1}),
      nullable_text("link", &Self::link,
                    "the slowest link that a group crosses; null: it has one rank"),
      field("latency_us", &Self::latency_us, ""),
      field("bandwidth_gb_per_s", &Self::bandwidth_gb_per_s, "of one device, in one direction"));
};

template <>
struct Fields<reports::MeshOnHosts> {
  using Self = reports::MeshOnHosts;
  static constexpr std::string_view kName = "mesh_on_hosts";
  static constexpr auto kList =
      std::tuple(field("topology", &Self::topology, ""),
                 field("devices_per_host", &Self::devices_per_host, "", {.min = 1}),
                 field("dims", &Self::dims, "the mesh dims, the outermost first"));
};

// The part of the record that is under "result".
template <>
struct Fields<reports::SimulationRecord> {
  using Self = reports::SimulationRecord;
  static constexpr std::string_view kName = "simulation";
  static constexpr std::string_view kMeaning = "a run on virtual ranks";
  static constexpr auto kList = std::tuple(
      field("what", &Self::what, "the redistribution, the op or the program"),
      field("mesh", &Self::mesh, ""), field("stack", &Self::stack, ""),
      field("ranks", &Self::ranks, ""), field("data", &Self::has_data, ""),
      field("verified", &Self::verified, "null: there was nothing to verify"),
      nullable_text("mismatch", &Self::mismatch, ""),
      field("replicas_bitwise_equal", &Self::replicas_bitwise_equal, ""),
      nullable_text("refused", &Self::refused, "why nothing ran"),
      optional_or_null("unpriced", &Self::unpriced,
                       "why kernels have no price; null: they have one"),
      field("straggler", &Self::straggler, ""), field("time_us", &Self::time, ""),
      optional_field("low_us", &Self::low_us,
                     "with high_us: where the median lies on 95 of 100 clusters that are "
                     "like those fitted to"),
      optional_field("high_us", &Self::high_us, ""), field("bytes_moved", &Self::bytes_moved, ""),
      field("notes", &Self::notes, ""), field("steps", &Self::steps, ""),
      optional_field("timeline", &Self::timeline,
                     "the ranks that are drawn; missing in older records"),
      optional_field("hosts", &Self::hosts, "missing in older records"));
};

}  // namespace shardlab
