// The contracts that every registered model must keep, or list as an exemption with its reason. An
// exemption that is not needed any more fails too. A new model is tested once it is registered.
//
// Each contract is checked on a grid and on random queries, a million of them in
// CostModelContractSlow.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <iostream>
#include <set>

#include "costmodel/base/index.h"
#include "costmodel/registry.h"
#include "sim/mesh.h"
#include "tests/support/random_source.h"
#include "tests/support/shipped.h"

namespace shardlab {
namespace cost_model_contract_test {

using nlohmann::json;
using testing_support::h100;
using testing_support::Random;
using testing_support::shipped;

constexpr std::array kCollectives = {Collective::kAllGather,     Collective::kAllReduce,
                                     Collective::kReduceScatter, Collective::kAllToAll,
                                     Collective::kBroadcast,     Collective::kScatter,
                                     Collective::kSendRecv,      Collective::kLocal};

// A model with everything it needs, and its name for messages.
struct Instance {
  std::string name;
  ModelChoice choice;
  Topology topology;
  std::unique_ptr<CostModel> model;
};

// A table of prices that rise with bytes and ranks and have a cheap all_reduce, or that fall and
// have a dear one.
json table_rows(bool rising) {
  json rows = json::array();
  for (const Collective kind : kCollectives) {
    if (kind == Collective::kLocal) continue;
    for (const int ranks : {2, 4, 8, 16}) {
      for (const double bytes : {1e3, 1e6, 1e9}) {
        const double us = rising ? 10 + bytes / 1e5 * ranks : 1e7 / (1 + bytes / 1e3);
        const double of_all_reduce = rising ? us / 8 : us * 8;
        rows.push_back({{"collective", to_string(kind)},
                        {"ranks", ranks},
                        {"bytes", bytes},
                        {"time_us", kind == Collective::kAllReduce ? of_all_reduce : us}});
      }
    }
  }
  return rows;
}

// Curves in place of points, with a cheap or a dear all_reduce.
json curve_rows(bool cheap) {
  json rows = json::array();
  for (const Collective kind : kCollectives) {
    if (kind == Collective::kLocal) continue;
    for (const auto& [ranks, hosts] : {std::pair(2, 1), std::pair(8, 1), std::pair(16, 2)}) {
      const double factor = kind != Collective::kAllReduce ? 1.0 : cheap ? 0.125 : 8.0;
      rows.push_back({{"collective", to_string(kind)},
                      {"ranks", ranks},
                      {"hosts", hosts},
                      {"latency_us", 10.0 * hosts * factor},
                      {"bandwidth_gb_per_s", 200.0 / hosts / factor},
                      {"sharpness", 1.0},
                      {"kinks", json::array()}});
    }
  }
  return rows;
}

// Factors of the links' curves, with a cheap or a dear all_reduce.
json population_rows(bool cheap) {
  json rows = json::array();
  for (const Collective kind : kCollectives) {
    if (kind == Collective::kLocal || kind == Collective::kScatter) continue;
    for (const auto& [ranks, domains] : {std::pair(2, 1), std::pair(8, 1), std::pair(16, 2)}) {
      const double factor = kind != Collective::kAllReduce ? 1.0 : cheap ? 0.125 : 8.0;
      rows.push_back(
          {{"collective", to_string(kind)},
           {"ranks", ranks},
           {"domains", domains},
           {"points",
            {{-6.0, factor * domains, 0.2}, {0.5, 9 * factor, 0.1}, {3.0, factor, 0.1}}}});
    }
  }
  return rows;
}

json rows_of(const ModelEntry& entry, bool rising) {
  if (entry.fits_population) return population_rows(rising);
  return entry.fits_curves ? curve_rows(rising) : table_rows(rising);
}

// Doubles the parameters whose name says that they are bandwidths, and the bandwidths of the
// topology's links.
json doubled_params(const ModelEntry& entry) {
  json params = json::object();
  for (const ParamSpec& spec : entry.params) {
    if (spec.name.find("bandwidth") != std::string_view::npos && spec.default_value) {
      params[std::string(spec.name)] = 2 * *spec.default_value;
    }
  }
  return params;
}

Topology with_doubled_bandwidth(const Topology& topology) {
  json value = topology.to_json();
  for (json& link : value["links"]) {
    link["bandwidth_gb_per_s"] = 2 * link["bandwidth_gb_per_s"].get<double>();
  }
  json& memory = value["device"]["memory_bandwidth_gb_per_s"];
  memory = 2 * memory.get<double>();
  return Topology::from_json(value, {"doubled", ""});
}

std::vector<Topology> topologies() {
  std::vector<Topology> all = {h100(1), h100(5)};
  for (const std::string& name : shipped().names(ConfigKind::kTopology)) {
    all.push_back(shipped().topology(name));
  }
  return all;
}

Instance instance(const ModelEntry& entry, const Topology& topology, const json& params,
                  const json& rows, const std::string& what) {
  ModelChoice choice{&entry, params, rows, {"contract", ""}};
  auto model = make_collective_model(choice, topology);
  return {std::string(entry.name) + what + " on " + topology.name(), choice, topology,
          std::move(model)};
}

std::vector<Instance> instances(const ModelEntry& entry) {
  std::vector<Instance> all;
  for (const Topology& topology : topologies()) {
    if (!entry.reads_rows) {
      all.push_back(instance(entry, topology, json::object(), json::array(), ""));
      continue;
    }
    for (const bool rising : {true, false}) {
      all.push_back(instance(entry, topology, json::object(), rows_of(entry, rising),
                             rising ? " of rising rows" : " of falling rows"));
    }
  }
  return all;
}

// The spans of the dims of some meshes, among them groups of one rank.
std::vector<GroupSpan> spans(const Topology& topology) {
  std::vector<GroupSpan> all;
  for (const char* text : {"1x4", "2x4", "4x8", "16x8", "2x2x2", "3x5", "8x16", "64"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    for (int m = 0; m < mesh.ndim(); ++m) all.push_back(mesh.span(m, topology));
  }
  return all;
}

// Sizes in bytes, some on both sides of a power of two, where tables of corrections jump.
const std::vector<double> kBytes = {0,       1,       100.5, 1e3, 65536, 1048576,
                                    4194303, 4194304, 3e7,   1e9, 1e12,  1e15};

std::string describe(const Instance& i, Collective kind, double bytes, const GroupSpan& group) {
  return i.name + ": " + std::string(to_string(kind)) + " of " + std::to_string(bytes) +
         " bytes among " + std::to_string(group.ranks) + " ranks on " +
         std::to_string(group.hosts) + " hosts";
}

// Says what violates a contract; empty if nothing does.
using Violation = std::optional<std::string>;
using Query = std::function<Violation(Collective, double, const GroupSpan&)>;

Violation for_each_query(const Instance& i, const Query& check) {
  for (const GroupSpan& group : spans(i.topology)) {
    for (const Collective kind : kCollectives) {
      for (const double bytes : kBytes) {
        if (const Violation v = check(kind, bytes, group)) {
          return describe(i, kind, bytes, group) + ": " + *v;
        }
      }
    }
  }
  return std::nullopt;
}

// Whether a is larger than b by more than the rounding of sums in another order.
bool exceeds(double a, double b) { return a > b * (1 + 1e-12) + 1e-12; }

Violation finite_and_non_negative(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    const Price p = i.model->price({kind, bytes, g});
    if (!p.is_possible()) return std::nullopt;
    if (std::isfinite(p.total.value()) && p.total.value() >= 0) return std::nullopt;
    return "costs " + std::to_string(p.total.value());
  });
}

Violation all_queries_have_a_price(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    const Price p = i.model->price({kind, bytes, g});
    if (p.is_possible()) return std::nullopt;
    return std::string(p.impossible);
  });
}

Violation one_rank_is_free(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    if (g.ranks != 1) return std::nullopt;
    const double us = i.model->price({kind, bytes, g}).total.value();
    if (us == 0) return std::nullopt;
    return "costs " + std::to_string(us);
  });
}

Violation local_work_is_free(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    if (kind != Collective::kLocal) return std::nullopt;
    const double us = i.model->price({kind, bytes, g}).total.value();
    if (us == 0) return std::nullopt;
    return "costs " + std::to_string(us);
  });
}

Violation parts_sum_to_total(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    const Price p = i.model->price({kind, bytes, g});
    const double sum = (p.latency + p.transfer + p.compute + p.straggler).value();
    if (!p.is_possible() || !(exceeds(sum, p.total.value()) || exceeds(p.total.value(), sum))) {
      return std::nullopt;
    }
    return "parts " + std::to_string(sum) + ", total " + std::to_string(p.total.value());
  });
}

Violation equal_inputs_equal_price(const Instance& i) {
  // Another instance of the model, which is asked in another order, must answer the same.
  const auto twin = make_collective_model(i.choice, i.topology);
  static_cast<void>(twin->price({Collective::kAllReduce, 77, {.ranks = 3}}));
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    const double a = i.model->price({kind, bytes, g}).total.value();
    const double b = twin->price({kind, bytes, g}).total.value();
    if (std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b)) return std::nullopt;
    return std::to_string(a) + ", then " + std::to_string(b);
  });
}

Violation never_falls_with_bytes(const Instance& i) {
  for (const GroupSpan& group : spans(i.topology)) {
    for (const Collective kind : kCollectives) {
      double before = 0;
      for (const double bytes : kBytes) {
        const double us = i.model->price({kind, bytes, group}).total.value();
        if (exceeds(before, us)) {
          return describe(i, kind, bytes, group) + ": " + std::to_string(us) + " after " +
                 std::to_string(before);
        }
        before = us;
      }
    }
  }
  return std::nullopt;
}

Violation never_rises_with_bandwidth(const Instance& i) {
  const Instance fast = instance(*i.choice.entry, with_doubled_bandwidth(i.topology),
                                 doubled_params(*i.choice.entry), i.choice.rows, "");
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    const double a = i.model->price({kind, bytes, g}).total.value();
    const double b = fast.model->price({kind, bytes, g}).total.value();
    if (!exceeds(b, a)) return std::nullopt;
    return std::to_string(a) + ", with twice the bandwidth " + std::to_string(b);
  });
}

Violation all_reduce_within_reduce_scatter_and_all_gather(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    if (kind != Collective::kAllReduce) return std::nullopt;
    const auto us = [&](Collective k) { return i.model->price({k, bytes, g}).total.value(); };
    const double both = us(Collective::kReduceScatter) + us(Collective::kAllGather);
    if (!exceeds(us(Collective::kAllReduce), both)) return std::nullopt;
    return std::to_string(us(Collective::kAllReduce)) + " above " + std::to_string(both);
  });
}

Violation reduce_scatter_within_all_reduce(const Instance& i) {
  return for_each_query(i, [&](Collective kind, double bytes, const GroupSpan& g) -> Violation {
    if (kind != Collective::kReduceScatter) return std::nullopt;
    const auto us = [&](Collective k) { return i.model->price({k, bytes, g}).total.value(); };
    if (!exceeds(us(Collective::kReduceScatter), us(Collective::kAllReduce))) return std::nullopt;
    return std::to_string(us(Collective::kReduceScatter)) + " above " +
           std::to_string(us(Collective::kAllReduce));
  });
}

// -- Random queries

struct Draw {
  Collective kind;
  double bytes;
  double more_bytes;
  GroupSpan group;
};

// Groups of the dims of random meshes of up to 1024 ranks, among them parts of hosts, strided
// groups and groups that hosts do not divide.
std::vector<GroupSpan> random_spans(const Topology& topology, int meshes, Random& random) {
  std::vector<GroupSpan> all;
  for (int i = 0; i < meshes; ++i) {
    std::vector<std::int64_t> sizes;
    std::int64_t total = 1;
    for (std::int64_t dims = random.between(1, 3); dims > 0; --dims) {
      const std::int64_t size = random.between(0, 3) == 0
                                    ? random.between(1, 12)
                                    : std::int64_t{1}
                                          << static_cast<unsigned>(random.between(0, 7));
      if (total * size > 1024) continue;
      sizes.push_back(size);
      total *= size;
    }
    if (sizes.empty()) sizes.push_back(1);
    const DeviceMesh mesh = DeviceMesh::make(sizes);
    for (int m = 0; m < mesh.ndim(); ++m) all.push_back(mesh.span(m, topology));
  }
  return all;
}

// A model, the same with twice the bandwidth, and groups to ask about.
struct RandomSubject {
  Instance slow;
  Instance fast;
  std::vector<GroupSpan> groups;

  [[nodiscard]] double us(Collective kind, double bytes, const GroupSpan& group) const {
    return slow.model->price({kind, bytes, group}).total.value();
  }
};

std::vector<RandomSubject> random_subjects(const ModelEntry& entry, Random& random) {
  std::vector<RandomSubject> all;
  for (Instance& slow : instances(entry)) {
    Instance fast = instance(entry, with_doubled_bandwidth(slow.topology), doubled_params(entry),
                             slow.choice.rows, "");
    std::vector<GroupSpan> groups = random_spans(slow.topology, 100, random);
    all.push_back({std::move(slow), std::move(fast), std::move(groups)});
  }
  return all;
}

Draw draw(const RandomSubject& subject, Random& random) {
  Draw d;
  d.kind = kCollectives[to_index(random.below(static_cast<int>(kCollectives.size())))];
  const auto size = [&] {
    return std::floor(std::exp2(static_cast<double>(random.between(0, 40 << 10)) / 1024.0));
  };
  d.bytes = size();
  d.more_bytes = size();
  if (random.percent(25)) {  // on both sides of a power of two
    d.more_bytes = std::exp2(std::floor(std::log2(d.more_bytes)));
    d.bytes = d.more_bytes - 1;
  }
  if (d.more_bytes < d.bytes) std::swap(d.bytes, d.more_bytes);
  d.group = random.pick(subject.groups);
  return d;
}

bool random_finite(const RandomSubject& s, const Draw& d) {
  const Price p = s.slow.model->price({d.kind, d.bytes, d.group});
  return !p.is_possible() || (std::isfinite(p.total.value()) && p.total.value() >= 0);
}
bool random_one_rank(const RandomSubject& s, const Draw& d) {
  return d.group.ranks != 1 || s.us(d.kind, d.bytes, d.group) == 0;
}
bool random_bytes(const RandomSubject& s, const Draw& d) {
  return !exceeds(s.us(d.kind, d.bytes, d.group), s.us(d.kind, d.more_bytes, d.group));
}
bool random_bandwidth(const RandomSubject& s, const Draw& d) {
  return !exceeds(s.fast.model->price({d.kind, d.bytes, d.group}).total.value(),
                  s.us(d.kind, d.bytes, d.group));
}
bool random_both_parts(const RandomSubject& s, const Draw& d) {
  return !exceeds(s.us(Collective::kAllReduce, d.bytes, d.group),
                  s.us(Collective::kReduceScatter, d.bytes, d.group) +
                      s.us(Collective::kAllGather, d.bytes, d.group));
}
bool random_one_part(const RandomSubject& s, const Draw& d) {
  return !exceeds(s.us(Collective::kReduceScatter, d.bytes, d.group),
                  s.us(Collective::kAllReduce, d.bytes, d.group));
}

struct Contract {
  std::string_view name;
  Violation (*check)(const Instance&);
  bool (*keeps)(const RandomSubject&, const Draw&) = nullptr;  // on one random query
};

struct RandomCount {
  int queries = 0;
  int violations = 0;
  std::string first;
};

RandomCount ask_at_random(const ModelEntry& entry, const Contract& contract, int queries) {
  Random random(5);
  const std::vector<RandomSubject> subjects = random_subjects(entry, random);
  RandomCount count;
  for (; count.queries < queries; ++count.queries) {
    const RandomSubject& subject =
        subjects[static_cast<std::size_t>(count.queries) % subjects.size()];
    const Draw d = draw(subject, random);
    if (contract.keeps(subject, d)) continue;
    if (count.violations++ == 0) {
      count.first = describe(subject.slow, d.kind, d.bytes, d.group) + " (and of " +
                    std::to_string(d.more_bytes) + " bytes)";
    }
  }
  return count;
}
constexpr std::array kContracts = {
    Contract{"finite_and_non_negative", finite_and_non_negative, random_finite},
    Contract{"all_queries_have_a_price", all_queries_have_a_price},
    Contract{"one_rank_is_free", one_rank_is_free, random_one_rank},
    Contract{"local_work_is_free", local_work_is_free},
    Contract{"parts_sum_to_total", parts_sum_to_total},
    Contract{"equal_inputs_equal_price", equal_inputs_equal_price},
    Contract{"never_falls_with_bytes", never_falls_with_bytes, random_bytes},
    Contract{"never_rises_with_bandwidth", never_rises_with_bandwidth, random_bandwidth},
    Contract{"all_reduce_within_reduce_scatter_and_all_gather",
             all_reduce_within_reduce_scatter_and_all_gather, random_both_parts},
    Contract{"reduce_scatter_within_all_reduce", reduce_scatter_within_all_reduce, random_one_part},
};

const ContractExemption* exemption_of(const ModelEntry& entry, std::string_view contract) {
  for (const ContractExemption& exemption : entry.exemptions) {
    if (exemption.contract == contract) return &exemption;
  }
  return nullptr;
}

struct ModelContract {
  const ModelEntry* entry;
  const Contract* contract;
};
void PrintTo(const ModelContract& c, std::ostream* out) {
  *out << c.entry->name << " " << c.contract->name;
}
class CostModelContract : public testing::TestWithParam<ModelContract> {};

TEST_P(CostModelContract, IsKeptOrItsExemptionIsNeeded) {
  const auto& [entry, contract] = GetParam();
  Violation violation;
  for (const Instance& i : instances(*entry)) {
    violation = contract->check(i);
    if (violation) break;
  }
  if (!violation && contract->keeps != nullptr) {
    const RandomCount count = ask_at_random(*entry, *contract, testing_support::random_cases(2000));
    if (count.violations > 0) violation = count.first;
  }
  const ContractExemption* exemption = exemption_of(*entry, contract->name);
  if (exemption == nullptr) {
    EXPECT_FALSE(violation.has_value()) << *violation;
  } else {
    EXPECT_TRUE(violation.has_value())
        << "the contract is kept: the exemption (" << exemption->reason << ") can go";
  }
}

std::vector<ModelContract> model_contracts() {
  std::vector<ModelContract> all;
  for (const ModelEntry* entry : all_cost_models()) {
    if (entry->make_collective == nullptr) continue;
    for (const Contract& contract : kContracts) all.push_back({entry, &contract});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllModels, CostModelContract, testing::ValuesIn(model_contracts()),
                         [](const auto& test) {
                           return std::string(test.param.entry->name) + "_" +
                                  std::string(test.param.contract->name);
                         });

class CostModelContractSlow : public testing::TestWithParam<ModelContract> {};

TEST_P(CostModelContractSlow, IsKeptOnAMillionRandomQueries) {
  const auto& [entry, contract] = GetParam();
  const RandomCount count =
      ask_at_random(*entry, *contract, testing_support::random_cases(1000000));
  RecordProperty("queries", count.queries);
  RecordProperty("violations", count.violations);
  std::cout << entry->name << " " << contract->name << ": " << count.violations << " of "
            << count.queries << " queries\n";
  if (exemption_of(*entry, contract->name) == nullptr) {
    EXPECT_EQ(count.violations, 0) << count.first;
  }
}

std::vector<ModelContract> random_contracts() {
  std::vector<ModelContract> all;
  for (const ModelContract& c : model_contracts()) {
    if (c.contract->keeps != nullptr) all.push_back(c);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllModels, CostModelContractSlow, testing::ValuesIn(random_contracts()),
                         [](const auto& test) {
                           return std::string(test.param.entry->name) + "_" +
                                  std::string(test.param.contract->name);
                         });

// -- Kernels --------------------------------------------------------------------------------------

class ComputeModelContract : public testing::TestWithParam<const ModelEntry*> {
 protected:
  static std::unique_ptr<ComputeModel> model(const Topology& topology) {
    return make_compute_model({GetParam(), json::object(), json::array(), {"contract", ""}},
                              topology);
  }
  static double us(const ComputeModel& model, double bytes, double flops, DType dtype) {
    return model.price({Kernel::kGemm, bytes, flops, dtype}).total.value();
  }
};

TEST_P(ComputeModelContract, IsFiniteAndNeverNegative) {
  for (const Topology& topology : topologies()) {
    const auto m = model(topology);
    for (const double bytes : kBytes) {
      for (const double flops : kBytes) {
        const double price = us(*m, bytes, flops, DType::kBF16);
        EXPECT_TRUE(std::isfinite(price) && price >= 0) << bytes << " bytes, " << flops << " flops";
      }
    }
  }
}

TEST_P(ComputeModelContract, NoWorkIsFree) {
  EXPECT_EQ(us(*model(h100(8)), 0, 0, DType::kF32), 0.0);
}

TEST_P(ComputeModelContract, NeverFallsWithBytesOrOperations) {
  const auto m = model(h100(8));
  for (const double other : kBytes) {
    for (std::size_t i = 1; i < kBytes.size(); ++i) {
      EXPECT_GE(us(*m, kBytes[i], other, DType::kF32), us(*m, kBytes[i - 1], other, DType::kF32));
      EXPECT_GE(us(*m, other, kBytes[i], DType::kF32), us(*m, other, kBytes[i - 1], DType::kF32));
    }
  }
}

TEST_P(ComputeModelContract, NeverRisesWithMemoryBandwidth) {
  const Topology slow = h100(8);
  const auto a = model(slow);
  const auto b = model(with_doubled_bandwidth(slow));
  for (const double bytes : kBytes) {
    EXPECT_LE(us(*b, bytes, 1e9, DType::kF32), us(*a, bytes, 1e9, DType::kF32));
  }
}

std::vector<const ModelEntry*> compute_models() {
  std::vector<const ModelEntry*> all;
  for (const ModelEntry* entry : all_cost_models()) {
    if (entry->make_compute != nullptr) all.push_back(entry);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(AllModels, ComputeModelContract, testing::ValuesIn(compute_models()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST(CostModelExemptions, NameAContractAndAReasonOnce) {
  std::set<std::string_view> known;
  for (const Contract& contract : kContracts) known.insert(contract.name);
  for (const ModelEntry* entry : all_cost_models()) {
    std::set<std::string_view> seen;
    for (const ContractExemption& exemption : entry->exemptions) {
      EXPECT_TRUE(known.contains(exemption.contract))
          << entry->name << ": no contract " << exemption.contract;
      EXPECT_TRUE(seen.insert(exemption.contract).second)
          << entry->name << ": " << exemption.contract << " twice";
      EXPECT_FALSE(exemption.reason.empty()) << entry->name << ": " << exemption.contract;
    }
  }
}

}  // namespace cost_model_contract_test
}  // namespace shardlab
