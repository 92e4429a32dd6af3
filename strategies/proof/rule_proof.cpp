#include "strategies/proof/rule_proof.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "costmodel/base/error.h"
#include "costmodel/base/index.h"
#include "costmodel/base/text.h"
#include "sim/counter_hash.h"
#include "sim/fake_group.h"
#include "sim/partial_values.h"
#include "sim/tensor_kernels.h"
#include "strategies/proof/op_kernel.h"
#include "strategies/rules/expansion.h"

namespace shardlab {
namespace {

constexpr std::int64_t kMemoryBytes = std::int64_t{1} << 30U;
constexpr std::size_t kShownElements = 48;  // of a witness's locals
constexpr std::size_t kLeastElements = 96;  // of an output, over all data sets: no coincidences
constexpr std::array<ReduceOp, 5> kReductions = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax,
                                                 ReduceOp::kMin, ReduceOp::kProduct};

using Doubles = std::vector<double>;

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

// -- Data ------------------------------------------------------------------------------------

// Of one tensor of a sample call.
Doubles draw_values(const TensorMeta& meta, const SampleCall::Values& values, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(elements_of(meta.shape));
  const auto hash = [&](std::size_t i) {
    return counter_hash(seed, static_cast<std::uint64_t>(i), 0x5eed);
  };
  const auto shuffled = [&](std::size_t size, std::size_t first) {
    std::vector<double> order(size);
    for (std::size_t i = 0; i < size; ++i) order[i] = static_cast<double>(i);
    for (std::size_t i = size; i > 1; --i) std::swap(order[i - 1], order[hash(first + i) % i]);
    return order;
  };
  Doubles out(count);
  if (values.kind == SampleValues::kDistinct) {
    out = shuffled(count, 0);
    const std::size_t middle = count / 2;
    for (double& x : out) x -= static_cast<double>(middle);
  } else if (values.kind == SampleValues::kUnique) {
    const auto run = static_cast<std::size_t>(meta.shape.empty() ? 1 : meta.shape.back());
    for (std::size_t begin = 0; run > 0 && begin < count; begin += run) {
      const std::vector<double> order = shuffled(static_cast<std::size_t>(values.limit), begin);
      for (std::size_t i = 0; i < run; ++i) out[begin + i] = order[i % order.size()];
    }
  } else {
    const auto below = static_cast<std::uint64_t>(std::max<std::int64_t>(values.limit, 1));
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t h = hash(i);
      if (values.kind == SampleValues::kBelow) {
        out[i] = static_cast<double>(h % below);
      } else if (meta.dtype == DType::kB8) {
        out[i] = static_cast<double>(h & 1U);
      } else if (values.kind == SampleValues::kPositive || meta.dtype == DType::kU8) {
        out[i] = static_cast<double>(h % 8) + 1.0;
      } else if (values.kind == SampleValues::kUnit) {
        out[i] = (static_cast<double>(h % 127) - 63.0) / 64.0;
      } else if (values.kind == SampleValues::kFew) {
        out[i] = static_cast<double>(h % 3) - 1.0;
      } else if (is_floating_point(meta.dtype)) {
        out[i] = (static_cast<double>(h % 24) + 1.0) * ((h >> 32U & 1U) != 0 ? 0.25 : -0.25);
      } else {
        out[i] = static_cast<double>(h % 13) - 6.0;
      }
    }
  }
  return out;
}

bool has_contributions(ReduceOp op, DType dtype) {
  // Sums of b8 are no sums.
  return reduces(op, dtype) &&
         (dtype != DType::kB8 || op == ReduceOp::kMax || op == ReduceOp::kMin);
}

// Contributions of `ranks` ranks to each value, exact. Of few values they are few as well, so that
// they meet each other.
std::vector<Doubles> contributions_to(const Doubles& values, bool few, ReduceOp op, DType dtype,
                                      std::size_t ranks, std::uint64_t seed) {
  const bool truth = dtype == DType::kB8;
  std::vector<Doubles> parts(ranks, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto hash = [&](std::size_t r) {
      return counter_hash(seed, static_cast<std::uint64_t>(i), 0xc0de + r);
    };
    const std::size_t holder = hash(ranks) % ranks;
    double rest = op == ReduceOp::kAvg ? values[i] * static_cast<double>(ranks) : values[i];
    const double unit = is_floating_point(dtype) && !few ? 0.25 : 1.0;
    const std::uint64_t range = few ? 2 : 27;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r == holder) continue;
      const std::uint64_t h = hash(r);
      double& x = parts[r][i];
      switch (op) {
        case ReduceOp::kMax:
          x = truth ? std::min(values[i], static_cast<double>(h & 1U))
                    : values[i] - (static_cast<double>(h % range) + 1.0) * unit;
          break;
        case ReduceOp::kMin:
          x = truth ? std::max(values[i], static_cast<double>(h & 1U))
                    : values[i] + (static_cast<double>(h % range) + 1.0) * unit;
          break;
        case ReduceOp::kProduct: {
          constexpr std::array<double, 4> kFactors = {2.0, -1.0, 0.5, -2.0};
          x = is_floating_point(dtype) ? kFactors[h % 4] : (h & 1U) != 0 ? -1.0 : 1.0;
          rest /= x;
          break;
        }
        default:
          x = (static_cast<double>(h % range) + 1.0) * ((h >> 32U & 1U) != 0 ? unit : -unit);
          rest -= x;
      }
    }
    const bool shares = op == ReduceOp::kSum || op == ReduceOp::kAvg || op == ReduceOp::kProduct;
    parts[holder][i] = shares ? rest : values[i];
  }
  return parts;
}

// A tensor in one placement: what each rank holds, and which rows of the whole these are.
struct Distributed {
  std::vector<HostTensor> locals;
  std::vector<RowLists> rows;
};

HostTensor rows_taken(HostMemory& memory, HostTensor tensor, const RowLists& rows) {
  for (int d = 0; d < tensor.ndim(); ++d) {
    const auto& wanted = rows[to_index(d)];
    if (std::ssize(wanted) != tensor.extent(d)) tensor = select_rows(memory, tensor, d, wanted);
  }
  return tensor;
}

Distributed distribute(HostMemory& memory, const TensorMeta& meta, const Doubles& values, bool few,
                       const Placement& p, const DeviceMesh& mesh, std::uint64_t seed) {
  Distributed result;
  const auto ranks = static_cast<std::size_t>(mesh.size());
  const Layout layout(Placements(1, p));
  for (std::size_t r = 0; r < ranks; ++r) {
    const Coordinate coordinate(1, static_cast<std::int64_t>(r));
    result.rows.push_back(rows_of(meta, layout, mesh, coordinate));
  }
  if (p.kind() == Placement::Kind::kPartial) {
    for (const Doubles& part :
         contributions_to(values, few, p.reduce_op(), meta.dtype, ranks, seed)) {
      result.locals.push_back(from_doubles(memory, meta.dtype, meta.shape, part));
    }
    return result;
  }
  // A mask partial of indices holds them all: the kernel masks what is another rank's.
  const HostTensor whole = from_doubles(memory, meta.dtype, meta.shape, values);
  for (const RowLists& rows : result.rows) {
    result.locals.push_back(rows_taken(memory, whole, rows));
  }
  return result;
}

// -- Judgement -------------------------------------------------------------------------------

struct Output {
  TensorMeta meta;
  Doubles values;  // row-major
};

struct RankResults {
  std::vector<LocalResult> by_rank;
  std::string failure;  // why a rank has none
};

std::string numbers_text(const Doubles& values) {
  std::string text = "[";
  for (const double x : values) text += (text.size() > 1 ? "," : "") + format_double(x);
  return text + "]";
}

// One output in one placement against the whole; empty when it is right.
class Judge {
 public:
  Judge(const DeviceMesh& mesh, const Output& expected, std::span<const LocalResult> results,
        std::size_t output)
      : mesh_(mesh), expected_(expected) {
    for (const LocalResult& result : results) {
      shapes_.push_back(result.outputs[output].shape());
      locals_.push_back(as_doubles(result.outputs[output]));
      if (result.mask.data() != nullptr) masks_.push_back(as_doubles(result.mask));
    }
  }

  [[nodiscard]] std::string verdict(const Placement& p) const {
    if (p.is_partial()) return reduced_verdict(p);
    const Layout layout(Placements(1, p));
    for (std::size_t r = 0; r < locals_.size(); ++r) {
      const Coordinate coordinate(1, static_cast<std::int64_t>(r));
      const RowLists rows = rows_of(expected_.meta, layout, mesh_, coordinate);
      Shape shape;
      for (const auto& list : rows) shape.push_back(std::ssize(list));
      if (shape != shapes_[r]) return wrong_shape(r, shape);
      for (std::size_t i = 0; i < locals_[r].size(); ++i) {
        const std::size_t whole = whole_index(rows, i);
        const double want = expected_.values[whole];
        if (!is_close(locals_[r][i], want, std::abs(want))) {
          return "rank " + std::to_string(r) + ", element " + std::to_string(whole) + ": found " +
                 format_double(locals_[r][i]) + ", expected " + format_double(want);
        }
      }
    }
    return "";
  }

 private:
  [[nodiscard]] std::string wrong_shape(std::size_t rank, const Shape& wanted) const {
    const auto text = [&](const Shape& shape) {
      return TensorMeta{.dtype = expected_.meta.dtype, .shape = shape, .strides = {}}.text();
    };
    return "rank " + std::to_string(rank) + ": found " + text(shapes_[rank]) + ", expected " +
           text(wanted);
  }

  [[nodiscard]] std::size_t whole_index(const RowLists& rows, std::size_t local) const {
    std::size_t whole = 0;
    std::size_t stride = 1;
    for (std::size_t d = rows.size(); d-- > 0;) {
      const std::size_t extent = rows[d].size();
      whole += static_cast<std::size_t>(rows[d][local % extent]) * stride;
      local /= extent;
      stride *= static_cast<std::size_t>(expected_.meta.shape[d]);
    }
    return whole;
  }

  [[nodiscard]] std::string reduced_verdict(const Placement& p) const {
    for (std::size_t r = 0; r < locals_.size(); ++r) {
      if (shapes_[r] != expected_.meta.shape) return wrong_shape(r, expected_.meta.shape);
    }
    if (p.kind() == Placement::Kind::kMaskPartial && masks_.size() != locals_.size()) {
      return "no mask";
    }
    for (std::size_t i = 0; i < expected_.values.size(); ++i) {
      double magnitude = 0.0;
      const double found = reduced(p, i, magnitude);
      const double want = expected_.values[i];
      if (!is_close(found, want, std::max(magnitude, std::abs(want)))) {
        return "element " + std::to_string(i) + ": reduces to " + format_double(found) +
               ", expected " + format_double(want);
      }
    }
    return "";
  }

  [[nodiscard]] double reduced(const Placement& p, std::size_t i, double& magnitude) const {
    const auto ranks = static_cast<double>(locals_.size());
    std::optional<double> total;
    for (std::size_t r = 0; r < locals_.size(); ++r) {
      double x = locals_[r][i];
      if (p.kind() == Placement::Kind::kMaskPartial) {
        const Doubles& mask = masks_[r];
        if (!mask.empty() && mask[i * mask.size() / locals_[r].size()] != 0.0) x = 0.0;
      }
      if (p.kind() == Placement::Kind::kNormPartial) x = std::pow(std::abs(x), p.norm());
      if (std::isfinite(x)) magnitude += std::abs(x);
      total = total ? joined(p.reduce_op(), *total, x) : x;
    }
    if (p.kind() == Placement::Kind::kNormPartial) {
      magnitude = std::pow(magnitude, 1.0 / p.norm()) * 4.0;  // two powers
      return std::pow(*total, 1.0 / p.norm());
    }
    return p.reduce_op() == ReduceOp::kAvg ? *total / ranks : *total;
  }

  [[nodiscard]] double joined(ReduceOp op, double a, double b) const {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    if (expected_.meta.dtype == DType::kB8 && op == ReduceOp::kSum) op = ReduceOp::kMax;
    switch (op) {
      case ReduceOp::kMax:
        return std::max(a, b);
      case ReduceOp::kMin:
        return std::min(a, b);
      case ReduceOp::kProduct:
        return a * b;
      default:
        return a + b;
    }
  }

  [[nodiscard]] bool is_close(double found, double want, double magnitude) const {
    if (found == want || (std::isnan(found) && std::isnan(want))) return true;
    if (!std::isfinite(found) || !std::isfinite(want)) return false;
    const DType dtype = expected_.meta.dtype;
    if (!is_floating_point(dtype)) return false;
    const double n = static_cast<double>(locals_.size()) + 2.0;
    return std::abs(found - want) <=
           n * (unit_roundoff(dtype) * magnitude + underflow_error(dtype));
  }

  const DeviceMesh& mesh_;
  const Output& expected_;
  std::vector<Shape> shapes_;    // by rank
  std::vector<Doubles> locals_;  // by rank
  std::vector<Doubles> masks_;
};

// -- One sample call on one mesh -------------------------------------------------------------

// Placements of all tensors, outputs first.
using Combination = std::vector<Placement>;

std::string row_text(const Combination& placements, std::size_t outputs) {
  std::string text;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    text += i == 0 ? "" : i == outputs ? " | " : ", ";
    text += placements[i].text();
  }
  return text;
}

class CallProof {
 public:
  CallProof(const OpRule& rule, const SampleCall& sample, std::int64_t ranks,
            const RuleProofOptions& options)
      : rule_(rule),
        sample_(sample),
        kernel_(*find_op_kernel(rule.op)),
        mesh_(DeviceMesh::parse(std::to_string(ranks))),
        memory_(HostMemory::make(kMemoryBytes)) {
    for (const TensorSpec* tensor : sample_.call.tensors()) metas_.push_back(tensor->meta);
    list_placements();
    std::size_t elements = 0;  // of the smallest output, over all data sets
    for (int set = 0; set < options.data_sets || elements < kLeastElements; ++set) {
      add_data_set(static_cast<std::uint64_t>(set) * 7919 + 17);
      std::size_t least = kLeastElements;
      for (const Output& output : data_sets_.back().expected) {
        least = std::min(least, output.values.size());
      }
      elements += std::max<std::size_t>(least, 1);
    }
  }

  // Calls visit(combination of inputs) for all that are to be tried.
  template <class Visit>
  void for_each_combination(Visit&& visit) {
    if (!fit_combinations()) {
      for (const Combination& inputs : near_rows()) visit(inputs);
      return;
    }
    std::vector<std::size_t> digits(placements_.size(), 0);
    while (true) {
      Combination inputs;
      for (std::size_t t = 0; t < digits.size(); ++t) inputs.push_back(placements_[t][digits[t]]);
      visit(inputs);
      std::size_t t = digits.size();
      while (t > 0 && ++digits[t - 1] == placements_[t - 1].size()) digits[--t] = 0;
      if (t == 0) return;
    }
  }

  // Rows that the rules list for inputs in these placements: their outputs.
  [[nodiscard]] std::vector<Combination> listed(const Combination& inputs) {
    std::vector<Combination> outputs;
    for_each_candidate(inputs, [&](const Expansion& expansion, std::size_t candidate) {
      if (!expansion.keeps_inputs(candidate)) return;
      Combination row;
      for (std::size_t o = 0; o < expansion.outputs(); ++o) {
        row.push_back(expansion.output(candidate, o)[0]);
      }
      if (row.empty() && rule_.is_in_place()) {  // nothing is returned: what is written is judged
        const std::size_t written = std::min(inputs.size(), data_sets_[0].expected.size());
        row.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(written));
      }
      if (std::find(outputs.begin(), outputs.end(), row) == outputs.end()) outputs.push_back(row);
    });
    return outputs;
  }

  // By output: the placements in which it is right, for every data set.
  [[nodiscard]] std::vector<std::vector<Placement>> right_outputs(const Combination& inputs) {
    std::vector<std::vector<Placement>> right;
    for (const Output& output : data_sets_[0].expected)
      right.push_back(all_placements(output.meta));
    for (std::size_t set = 0; set < data_sets_.size(); ++set) {
      for (std::size_t o = 0; o < right.size(); ++o) {
        std::erase_if(right[o],
                      [&](const Placement& p) { return !verdict(set, inputs, o, p).empty(); });
        if (right[o].empty()) return right;
      }
    }
    return right;
  }

  // Why the row is wrong: the first failure of any output and data set; empty when it is right.
  [[nodiscard]] std::string fault(const Combination& inputs, const Combination& outputs) {
    if (outputs.size() != data_sets_[0].expected.size()) {
      return "the kernel has " + std::to_string(data_sets_[0].expected.size()) +
             " outputs, the rule " + std::to_string(outputs.size());
    }
    for (std::size_t set = 0; set < data_sets_.size(); ++set) {
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const std::string found = verdict(set, inputs, o, outputs[o]);
        if (found.empty()) continue;
        return (outputs.size() > 1 ? "output " + std::to_string(o) + ", " : "") + found +
               locals_text(set, inputs);
      }
    }
    return "";
  }

  // Whether a shard leaves a rank without rows.
  [[nodiscard]] bool has_empty_shard(const Combination& inputs, const Combination& outputs) const {
    const auto empty = [&](const Placement& p, const TensorMeta& meta) {
      return p.is_shard_like() && meta.shape[to_index(p.dim())] < mesh_.size();
    };
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      if (empty(inputs[t], metas_[t])) return true;
    }
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      if (empty(outputs[o], data_sets_[0].expected[o].meta)) return true;
    }
    return false;
  }

  // Whether the rules list this with an input as P(avg), P(max) or P(min) that is R here: R stands
  // for each of them as it is.
  [[nodiscard]] bool is_implied(const Combination& inputs, const Combination& outputs) {
    std::vector<std::size_t> replicated;
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      if (inputs[t].is_replicate()) replicated.push_back(t);
    }
    if (replicated.empty() || replicated.size() > 6) return false;
    for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) {
      for (unsigned subset = 1; subset < 1U << replicated.size(); ++subset) {
        Combination changed = inputs;
        for (std::size_t i = 0; i < replicated.size(); ++i) {
          if ((subset >> i & 1U) != 0) changed[replicated[i]] = Placement::partial(op);
        }
        const std::vector<Combination> rows = listed(changed);
        if (std::find(rows.begin(), rows.end(), outputs) != rows.end()) return true;
      }
    }
    return false;
  }

  // What the op writes to keeps its placement.
  [[nodiscard]] bool may_write(const Combination& inputs, const Combination& outputs) const {
    if (rule_.is_in_place() && outputs[0] != inputs[0]) return false;
    return !rule_.is_out_variant() || outputs[0] == inputs.back();
  }

  [[nodiscard]] std::span<const Output> expected() const { return data_sets_[0].expected; }
  [[nodiscard]] const OpCall& call() const { return sample_.call; }
  [[nodiscard]] std::int64_t ranks() const { return mesh_.size(); }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t elements = 0;
    for (const TensorMeta& meta : metas_) elements += elements_of(meta.shape);
    return elements;
  }
  // The call without layouts.
  [[nodiscard]] std::string text() const {
    OpCall call = sample_.call;
    std::string text = call.op + "(";
    std::size_t next = 0;
    for (const TensorArg& arg : call.inputs) {
      text += text.ends_with('(') ? "" : ", ";
      if (arg.is_absent()) text += "none";
      if (arg.is_list) text += "[";
      for (std::size_t i = 0; i < arg.tensors.size(); ++i) {
        text += (i > 0 ? "; " : "") + metas_[next++].text();
      }
      if (arg.is_list) text += "]";
    }
    for (const nlohmann::json& arg : call.args) text += ", " + arg.dump();
    return text + ")";
  }

 private:
  struct DataSet {
    std::vector<Doubles> values;  // by tensor
    std::vector<Output> expected;
    std::vector<std::map<Placement, Distributed>> distributed;  // by tensor
    std::uint64_t seed;
  };

  static std::vector<Placement> all_placements(const TensorMeta& meta) {
    std::vector<Placement> all = {Placement::replicate()};
    for (int d = 0; d < meta.ndim(); ++d) all.push_back(Placement::shard(d));
    for (const ReduceOp op : kReductions) {
      if (has_contributions(op, meta.dtype)) all.push_back(Placement::partial(op));
    }
    return all;
  }

  // Those of each tensor; mask partials only where a row has them.
  void list_placements() {
    for (const TensorMeta& meta : metas_) placements_.push_back(all_placements(meta));
    if (rule_.rows == nullptr) return;
    const std::size_t outputs = rule_.outputs(sample_.call).size();
    for (const Row& row : rule_.rows(sample_.call, rule_)) {
      for (std::size_t t = 0; t < metas_.size() && outputs + t < row.size(); ++t) {
        const Placement& p = row[outputs + t].placement();
        if (p.kind() != Placement::Kind::kMaskPartial) continue;
        if (std::find(placements_[t].begin(), placements_[t].end(), p) == placements_[t].end()) {
          placements_[t].push_back(p);
        }
      }
    }
  }

  [[nodiscard]] std::size_t count() const {
    std::size_t product = 1;
    for (const auto& each : placements_)
      product = std::min(product, std::size_t{1} << 40U) * each.size();
    return product;
  }

  // Leaves partials of inputs out until there are few enough combinations; whether there are.
  bool fit_combinations() {
    const auto drop = [&](auto&& is_dropped) {
      if (count() <= kMaxRuleCombinations) return;
      for (std::size_t t = 0; t < placements_.size(); ++t) {
        std::erase_if(placements_[t], [&](const Placement& p) {
          return p.kind() == Placement::Kind::kPartial && is_dropped(metas_[t], p.reduce_op());
        });
      }
    };
    drop([](const TensorMeta& meta, ReduceOp) { return !is_floating_point(meta.dtype); });
    for (const ReduceOp dropped :
         {ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kAvg, ReduceOp::kMax}) {
      drop([&](const TensorMeta&, ReduceOp op) { return op == dropped; });
    }
    return count() <= kMaxRuleCombinations;
  }

  // The listed rows, and what differs from one of them in one or two tensors.
  std::set<Combination> near_rows() {
    std::set<Combination> rows;
    Combination inputs(metas_.size(), Placement::replicate());
    rows.insert(inputs);
    // Rows are proposed for the shards that occur: one input of each kind shows them all.
    for (std::size_t t = 0; t < metas_.size(); ++t) {
      if (metas_[t].ndim() == 0) continue;
      Combination one = inputs;
      one[t] = Placement::shard(0);
      for_each_candidate(one, [&](const Expansion& expansion, std::size_t candidate) {
        Combination row;
        for (std::size_t i = 0; i < expansion.inputs(); ++i) {
          row.push_back(expansion.input(candidate, i)[0]);
        }
        rows.insert(row);
      });
    }
    std::set<Combination> near = rows;
    for (const Combination& row : rows) {
      for (std::size_t a = 0; a < row.size(); ++a) {
        for (std::size_t b = a; b < row.size(); ++b) {
          for (const Placement& pa : placements_[a]) {
            for (const Placement& pb : placements_[b]) {
              Combination changed = row;
              changed[a] = pa;
              changed[b] = pb;
              near.insert(changed);
            }
          }
        }
      }
    }
    return near;
  }

  // Calls visit(expansion, candidate) for what the rule proposes where the inputs are so.
  template <class Visit>
  void for_each_candidate(const Combination& inputs, Visit&& visit) {
    OpCall& call = sample_.call;
    std::size_t next = 0;
    for (TensorArg& arg : call.inputs) {
      for (TensorSpec& tensor : arg.tensors) tensor.layout = Layout(Placements(1, inputs[next++]));
    }
    try {
      const Expansion expansion = expand(rule_, call, mesh_);
      for (std::size_t c = 0; c < expansion.size(); ++c) visit(expansion, c);
    } catch (const InputError&) {  // the rule refuses the call in these layouts
    }
  }

  void add_data_set(std::uint64_t seed) {
    DataSet& set = data_sets_.emplace_back();
    set.seed = seed;
    set.distributed.resize(metas_.size());
    std::vector<HostTensor> wholes;
    for (std::size_t t = 0; t < metas_.size(); ++t) {
      set.values.push_back(draw_values(metas_[t], sample_.values[t], seed + 101 * t));
      wholes.push_back(from_doubles(*memory_, metas_[t].dtype, metas_[t].shape, set.values.back()));
    }
    const LocalResult result =
        run_op_kernel({.call = sample_.call, .memory = *memory_, .inputs = wholes});
    for (const HostTensor& output : result.outputs) {
      set.expected.push_back(
          {{.dtype = output.dtype(), .shape = output.shape(), .strides = {}}, as_doubles(output)});
    }
  }

  const Distributed& distributed(std::size_t set, std::size_t tensor, const Placement& p) {
    DataSet& data = data_sets_[set];
    const auto found = data.distributed[tensor].find(p);
    if (found != data.distributed[tensor].end()) return found->second;
    return data.distributed[tensor]
        .emplace(p, distribute(*memory_, metas_[tensor], data.values[tensor],
                               sample_.values[tensor].kind == SampleValues::kFew, p, mesh_,
                               data.seed + 31 * tensor))
        .first->second;
  }

  // The kernel on every rank. A kernel that must know its outputs' local shapes gets those of this
  // placement of output 0.
  const RankResults& run(std::size_t set, const Combination& inputs, const Placement& output) {
    const std::optional<Placement> shown =
        kernel_.needs_output_shapes ? std::optional(output) : std::nullopt;
    if (last_ && last_->set == set && last_->inputs == inputs && last_->output == shown) {
      return last_->results;
    }
    last_.emplace(LastRun{set, inputs, shown, {}});
    RankResults& results = last_->results;
    const auto ranks = static_cast<std::size_t>(mesh_.size());
    for (std::size_t r = 0; r < ranks && results.failure.empty(); ++r) {
      std::vector<HostTensor> locals;
      std::vector<RowLists> rows;
      for (std::size_t t = 0; t < inputs.size(); ++t) {
        const Distributed& tensor = distributed(set, t, inputs[t]);
        locals.push_back(tensor.locals[r]);
        rows.push_back(tensor.rows[r]);
      }
      std::vector<Shape> shapes;
      if (shown) {
        const Layout layout(Placements(1, *shown));
        const Coordinate coordinate(1, static_cast<std::int64_t>(r));
        for (const Output& expected : data_sets_[set].expected) {
          shapes.push_back(local_shape(expected.meta.shape, layout, mesh_, coordinate));
        }
      }
      try {
        results.by_rank.push_back(run_op_kernel({.call = sample_.call,
                                                 .memory = *memory_,
                                                 .inputs = locals,
                                                 .input_rows = rows,
                                                 .output_shapes = shapes}));
      } catch (const InputError& error) {
        results.failure = "rank " + std::to_string(r) + ": " + error.what();
      }
    }
    return results;
  }

  std::string verdict(std::size_t set, const Combination& inputs, std::size_t output,
                      const Placement& p) {
    const Output& expected = data_sets_[set].expected[output];
    if (p.is_shard_like() && p.dim() >= expected.meta.ndim()) return "a shard of a missing dim";
    const RankResults& results = run(set, inputs, p);
    if (!results.failure.empty()) return results.failure;
    for (const LocalResult& result : results.by_rank) {
      if (result.outputs.size() != data_sets_[set].expected.size())
        return "another number of outputs";
    }
    return Judge(mesh_, expected, results.by_rank, output).verdict(p);
  }

  // " where rank 0 has [1,2], [3] and rank 1 ...": of small calls.
  std::string locals_text(std::size_t set, const Combination& inputs) {
    if (elements() * mesh_.size() > static_cast<std::int64_t>(kShownElements)) return "";
    std::string text = " (";
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      text += (t > 0 ? "; " : "") + std::string("input ") + std::to_string(t) + ":";
      for (const HostTensor& local : distributed(set, t, inputs[t]).locals) {
        text += " " + numbers_text(as_doubles(local));
      }
    }
    return text + ")";
  }

  struct LastRun {
    std::size_t set;
    Combination inputs;
    std::optional<Placement> output;
    RankResults results;
  };

  const OpRule& rule_;
  SampleCall sample_;
  const OpKernel& kernel_;
  DeviceMesh mesh_;
  std::shared_ptr<HostMemory> memory_;
  std::vector<TensorMeta> metas_;                   // by tensor
  std::vector<std::vector<Placement>> placements_;  // by tensor: those that are tried
  std::vector<DataSet> data_sets_;
  std::optional<LastRun> last_;
};

// -- All sample calls ------------------------------------------------------------------------

// Findings by row, each with its smallest witness.
class Findings {
 public:
  void add(RuleFinding finding) {
    const auto [slot, is_new] = by_row_.try_emplace(finding.row, finding);
    if (is_new) return;
    finding.calls = slot->second.calls + 1;
    if (finding.elements < slot->second.elements) {
      slot->second = std::move(finding);
    } else {
      slot->second.calls = finding.calls;
    }
  }
  [[nodiscard]] std::vector<RuleFinding> take() {
    std::vector<RuleFinding> all;
    for (auto& [row, finding] : by_row_) all.push_back(std::move(finding));
    return all;
  }

 private:
  std::map<std::string, RuleFinding> by_row_;
};

// The placements of one output that are worth a row of their own: R implies P(avg), P(max) and
// P(min), and a shard can't be a partial.
std::vector<Placement> worth_listing(const std::vector<Placement>& right) {
  for (const Placement& p : right) {
    if (p.is_replicate()) return {p};
  }
  return right;
}

std::vector<Combination> products(const std::vector<std::vector<Placement>>& by_output) {
  std::vector<Combination> all = {{}};
  for (const std::vector<Placement>& choices : by_output) {
    std::vector<Combination> longer;
    for (const Combination& head : all) {
      for (const Placement& p : choices) {
        longer.push_back(head);
        longer.back().push_back(p);
      }
    }
    all = std::move(longer);
  }
  return all;
}

Row as_row(const Combination& outputs, const Combination& inputs) {
  Row row;
  for (const Placement& p : outputs) row.emplace_back(p);
  for (const Placement& p : inputs) row.emplace_back(p);
  return row;
}

// The sum of truth values is their maximum: one of the two stands for both.
Combination with_one_or(Combination outputs, std::span<const Output> expected) {
  for (std::size_t o = 0; o < std::min(outputs.size(), expected.size()); ++o) {
    const Placement sum = Placement::partial(ReduceOp::kSum);
    if (expected[o].meta.dtype == DType::kB8 && outputs[o] == sum) {
      outputs[o] = Placement::partial(ReduceOp::kMax);
    }
  }
  return outputs;
}

bool is_product(const Placement& p) {
  return p.kind() == Placement::Kind::kPartial && p.reduce_op() == ReduceOp::kProduct;
}

}  // namespace

bool is_provable(const OpRule& rule) {
  return find_op_kernel(rule.op) != nullptr && !sample_calls_of(rule.op, 1).empty();
}

RuleProof prove_rule(const OpRule& rule, const RuleProofOptions& options) {
  RuleProof proof;
  proof.op = rule.op;
  if (find_op_kernel(rule.op) == nullptr) {
    throw InputError(proof.op + " has no reference kernel, so its rules can't be proved");
  }
  Findings unsound;
  Findings missing;
  Findings omissions;
  std::set<std::string> accepted;
  std::string refusal = "no sample calls";
  for (const SampleCall& sample : sample_calls_of(rule.op, 1)) {
    for (const std::int64_t ranks : options.mesh_sizes) {
      std::optional<CallProof> call;
      try {
        call.emplace(rule, sample, ranks, options);
      } catch (const InputError& error) {  // no call of this op
        refusal = error.what();
        continue;
      }
      ++proof.calls;
      const auto finding = [&](const Combination& outputs, const Combination& inputs) {
        Combination all = outputs;
        all.insert(all.end(), inputs.begin(), inputs.end());
        return RuleFinding{.row = row_text(all, outputs.size()),
                           .call = call->text(),
                           .mesh = ranks,
                           .elements = call->elements()};
      };
      call->for_each_combination([&](const Combination& inputs) {
        ++proof.combinations;
        const std::vector<Combination> listed = call->listed(inputs);
        for (const Combination& outputs : listed) {
          RuleFinding row = finding(outputs, inputs);
          accepted.insert(row.row);
          row.detail = call->fault(inputs, outputs);
          if (!row.detail.empty()) unsound.add(std::move(row));
        }
        std::vector<Combination> known = listed;
        for (Combination& outputs : known) outputs = with_one_or(outputs, call->expected());
        std::vector<std::vector<Placement>> right = call->right_outputs(inputs);
        for (auto& placements : right) placements = worth_listing(placements);
        for (const Combination& outputs : products(right)) {
          if (std::find(known.begin(), known.end(), outputs) != known.end() ||
              !call->may_write(inputs, outputs) || call->has_empty_shard(inputs, outputs) ||
              call->is_implied(inputs, outputs)) {
            continue;
          }
          RuleFinding row = finding(outputs, inputs);
          if (rule.excuse != nullptr)
            row.reason = rule.excuse(call->call(), as_row(outputs, inputs));
          const bool product = std::any_of(inputs.begin(), inputs.end(), is_product) ||
                               std::any_of(outputs.begin(), outputs.end(), is_product);
          if (row.reason.empty() && product) row.reason = "P(product) comes from prod alone";
          (row.reason.empty() ? missing : omissions).add(std::move(row));
        }
      });
    }
  }
  if (proof.calls == 0) throw InputError(proof.op + ": nothing to prove its rules on: " + refusal);
  proof.accepted = accepted.size();
  proof.unsound = unsound.take();
  proof.missing = missing.take();
  proof.known_omissions = omissions.take();
  return proof;
}

}  // namespace shardlab
