// RaggedShard: contiguous parts of unequal sizes. The elements of the first tensor dims are taken
// as one dim, which is cut into as many equal units as `local_units` add up to; each rank holds the
// number of units that its place in the list says, in order, and 0 leaves it without any.
//
//   RG(0:1,3,2,2)     rows of tensor dim 0 among 4 ranks: an eighth, three eighths, a quarter, a
//                     quarter
//   RG(0,1:1,1)       the elements of tensor dims 0 and 1 together, cut into halves
//   RG(0:0,1)         all of it on the last rank, as a step of Muon gathers a matrix
//
// Source: pytorch/pytorch#169320, and the implementation that its thread points to: veScale,
// vescale/dtensor (placement_types.py, _redistribute.py) and docs/texts/raggedshard.md. What it
// says of units, of dims that are a prefix, of the all-gather to R and of the all-to-all from one
// RaggedShard to another on the same mesh dim is taken from there, and so are ways over R for every
// other pair. It gathers a partial before it cuts; the reduce_scatter of unequal parts, which FSDP
// needs for gradients, is that of pytorch/torchtitan#3402 and pytorch/pytorch#198344. There is no
// cost function in any of them.
#include <algorithm>
#include <numeric>

#include "sim/registered_placement.h"

namespace shardlab {

extern const PlacementEntry registered_placements_ragged_shard;

namespace {

constexpr std::string_view kShort = "RG(";
constexpr std::string_view kLong = "RaggedShard(";
constexpr std::string_view kOpenings[] = {kShort, kLong};
constexpr std::int64_t kMostUnits = std::int64_t{1} << 40U;
constexpr std::size_t kMostRanks = 65536;

std::string listed(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ",") + std::to_string(value);
  }
  return text;
}

class RaggedShard final : public RegisteredPlacement {
 public:
  RaggedShard(int dims, std::vector<std::int64_t> units)
      : RegisteredPlacement(registered_placements_ragged_shard, 0, dims),
        units_(std::move(units)),
        total_(std::accumulate(units_.begin(), units_.end(), std::int64_t{0})) {
    before_.push_back(0);
    for (const std::int64_t unit : units_) before_.push_back(before_.back() + unit);
  }

  [[nodiscard]] std::string text() const override {
    std::string text = "RG(0";
    for (int d = 1; d < dims(); ++d) text += "," + std::to_string(d);
    return text + ":" + listed(units_) + ")";
  }
  [[nodiscard]] std::string torch_text() const override {
    const auto tuple = [](const std::string& items, bool one) {
      return "(" + items + (one ? ",)" : ")");
    };
    std::string dim_items = "0";
    for (int d = 1; d < dims(); ++d) dim_items += ", " + std::to_string(d);
    std::string unit_items;
    for (const std::int64_t unit : units_) {
      unit_items += (unit_items.empty() ? "" : ", ") + std::to_string(unit);
    }
    return "RaggedShard(dims=" + tuple(dim_items, dims() == 1) +
           ", local_units=" + tuple(unit_items, units_.size() == 1) + ")";
  }

  [[nodiscard]] std::string why_not(std::int64_t extent, std::int64_t ranks) const override {
    if (std::ssize(units_) != ranks) {
      return "has units for " + std::to_string(units_.size()) +
             " ranks; valid on this mesh dim: " + std::to_string(ranks) +
             " units, one for each rank";
    }
    if (extent % total_ != 0) {
      return "has " + std::to_string(total_) + " units in all, which do not divide " +
             std::to_string(extent) + " rows; valid: units that add up to a divisor of " +
             std::to_string(extent);
    }
    return "";
  }
  [[nodiscard]] std::vector<RowRange> rows(std::int64_t extent, std::int64_t /*ranks*/,
                                           std::int64_t index) const override {
    const std::int64_t unit = extent / total_;
    const auto i = static_cast<std::size_t>(index);
    if (units_[i] * unit == 0) return {};
    return {{before_[i] * unit, before_[i + 1] * unit}};
  }
  [[nodiscard]] Shares shares(std::int64_t /*ranks*/) const override {
    const auto [least, most] = std::minmax_element(units_.begin(), units_.end());
    return {static_cast<double>(*most) / static_cast<double>(total_),
            static_cast<double>(*least) / static_cast<double>(total_)};
  }

 private:
  std::vector<std::int64_t> units_;
  std::int64_t total_;
  std::vector<std::int64_t> before_;  // by rank: the units of all ranks before it
};

// A name that may be left out, and the parenthesis that Python writes: "dims=(".
void skip_python(TextCursor& cursor, std::string_view name) {
  static_cast<void>(cursor.take(name));
  cursor.expect("(", "\"(\" and the list of " + std::string(name.substr(0, name.size() - 1)));
}

// The numbers up to `closing`, which is read as well. Python ends a list of one with a comma.
std::vector<std::int64_t> parse_list(TextCursor& cursor, std::string_view closing,
                                     std::string_view expected, std::int64_t most) {
  std::vector<std::int64_t> values;
  do {
    if (!values.empty() && cursor.take(closing)) return values;
    if (values.size() == kMostRanks) {
      cursor.fail("at most " + std::to_string(kMostRanks) + " numbers");
    }
    values.push_back(cursor.integer(expected, 0, most));
  } while (cursor.take(","));
  cursor.expect(closing, "\",\" or \"" + std::string(closing) + "\"");
  return values;
}

std::unique_ptr<const RegisteredPlacement> parse(TextCursor& cursor, std::string_view opening) {
  const bool python = opening == kLong;
  if (python) skip_python(cursor, "dims=");
  const std::size_t start = cursor.position();
  const std::vector<std::int64_t> dims =
      parse_list(cursor, python ? ")" : ":", "a tensor dim", kMaxTensorDims - 1);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != static_cast<std::int64_t>(d)) {
      cursor.fail_at(start, "the first tensor dims in order, such as 0 or 0,1");
    }
  }
  if (python) {
    cursor.expect(",", "\",\" and local_units");
    skip_python(cursor, "local_units=");
  }
  const std::size_t units_start = cursor.position();
  std::vector<std::int64_t> units = parse_list(cursor, ")", "the units of a rank", kMostUnits);
  if (std::all_of(units.begin(), units.end(), [](std::int64_t unit) { return unit == 0; })) {
    cursor.fail_at(units_start, "units of which at least one is not 0");
  }
  if (python) cursor.expect(")", "\")\"");
  return std::make_unique<RaggedShard>(static_cast<int>(dims.size()), std::move(units));
}

// Rising units where the rows allow it, all rows on the last rank, and the first two dims together.
std::vector<Placement> samples(const Shape& shape, std::int64_t ranks) {
  std::vector<Placement> all;
  std::int64_t extent = 1;
  for (int dims = 1; dims <= std::min<int>(2, static_cast<int>(shape.size())); ++dims) {
    extent *= shape[static_cast<std::size_t>(dims - 1)];
    const auto count = static_cast<std::size_t>(ranks);
    std::vector<std::int64_t> all_on_last(count, 0);
    all_on_last.back() = 1;
    // One unit is one row: the first ranks have one row less than the last, which has what is left.
    std::vector<std::int64_t> rising(count, 0);
    const std::int64_t each = extent / (ranks + 1);
    for (std::size_t r = 0; r < count; ++r) rising[r] = each;
    rising.back() = extent - each * (ranks - 1);
    std::int64_t divisor = 0;
    for (const std::int64_t unit : rising) divisor = std::gcd(divisor, unit);
    for (std::int64_t& unit : rising) unit /= std::max<std::int64_t>(divisor, 1);
    for (const auto& units : {all_on_last, rising}) {
      if (std::accumulate(units.begin(), units.end(), std::int64_t{0}) == 0) continue;
      const Placement p = Placement::registered(std::make_unique<RaggedShard>(dims, units));
      if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
    }
  }
  return all;
}

}  // namespace

PLACEMENT(ragged_shard){
    .name = "ragged_shard",
    .form = "RG(DIMS:UNITS)",
    .example = "RG(0:1,3,2,2)",
    .summary =
        "contiguous parts of unequal sizes: UNITS has one number for each rank of the mesh "
        "dim, and DIMS are the first tensor dims",
    .source = "pytorch/pytorch#169320; veScale, vescale/dtensor/placement_types.py",
    .openings = kOpenings,
    .changes = {.from_partial = true, .to_shard = false, .from_shard = false, .among_own = true},
    .passes_pointwise = true,
    .parse = parse,
    .samples = samples,
};

}  // namespace shardlab
