#include "reports/records/price_basis.h"

#include <algorithm>

namespace shardlab::reports {

std::string basis_text(Basis basis) {
  std::string text(name_of(basis));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace shardlab::reports
