#include "runner/config/program_stack.h"

#include <algorithm>

#include "costmodel/base/error.h"

namespace shardlab {

Stack program_stack(const ConfigStore& store, const std::string& named, const Topology& topology) {
  if (!named.empty()) return store.stack(named);
  const std::string fitted = "calibrated-" + topology.gpu();
  const std::vector<std::string> shipped = store.names(ConfigKind::kStack);
  const bool is_fitted = std::find(shipped.begin(), shipped.end(), fitted) != shipped.end();
  return store.stack(is_fitted ? fitted : "alpha-beta");
}

void expect_kernel_prices(const Stack& stack, std::string_view command) {
  if (stack.compute_model.entry->name != "none") return;
  throw InputError(std::string(command) + ": the stack " + stack.name +
                   " prices no kernels, so that replicating everything would be free; valid: a "
                   "stack that does, such as alpha-beta, or --set stack.compute_model=roofline");
}

}  // namespace shardlab
