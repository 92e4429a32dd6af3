#include "reports/records/price_basis.h"

#include <nlohmann/json.hpp>

#include "costmodel/base/error.h"
#include "reports/records/strict_json.h"

namespace shardlab::reports {

std::string_view basis_text(Basis basis) {
  switch (basis) {
    case Basis::kMeasured:
      return "measured";
    case Basis::kCarriedOver:
      return "carried over";
    case Basis::kLocalWork:
      return "local work";
  }
  SHARDLAB_CHECK(false, "no such basis: ", static_cast<int>(basis));
  return {};
}

std::string_view basis_key(Basis basis) {
  switch (basis) {
    case Basis::kMeasured:
      return "measured";
    case Basis::kCarriedOver:
      return "carried_over";
    case Basis::kLocalWork:
      return "local_work";
  }
  SHARDLAB_CHECK(false, "no such basis: ", static_cast<int>(basis));
  return {};
}

nlohmann::ordered_json to_json(const PriceBasis& basis) {
  return {{"measured_steps", basis.measured_steps}, {"not_measured", basis.not_measured}};
}

PriceBasis read_price_basis(const nlohmann::json& value, std::string_view file,
                            const std::string& pointer) {
  StrictObject object(value, file, pointer);
  PriceBasis basis;
  basis.measured_steps = object.integer("measured_steps", 0);
  basis.not_measured = object.texts("not_measured");
  object.finish();
  return basis;
}

}  // namespace shardlab::reports
