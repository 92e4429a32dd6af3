#include "costmodel/calibrate/calibration.h"

#include <algorithm>
#include <utility>

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"
#include "costmodel/calibrate/constants_calibration.h"
#include "costmodel/calibrate/contradictions.h"
#include "costmodel/calibrate/curve_calibration.h"

namespace shardlab {

ModelChoice Calibration::choice() const {
  return {.entry = model, .params = params, .rows = rows, .place = {}};
}

Calibration calibrate(const ModelEntry& model, std::span<const Observation> rows,
                      const Topology& topology) {
  for (const Observation& row : rows) {
    if (row.time_us > 0.0 && row.query.full_bytes >= 0.0 && row.query.group.ranks > 1) continue;
    throw InputError("calibrate: found " + observation_text(row) +
                     "; valid: at least 2 ranks and a time above 0");
  }
  if (model.fits_kernels) {
    throw InputError("calibrate: " + std::string(model.name) + " is fitted only to kernels");
  }
  if (!model.fits_curves && model.fitted.empty()) {
    throw InputError("calibrate: " + std::string(model.name) +
                     " has no free constants; valid: " + join(fitted_model_names()));
  }
  std::vector<RefusedObservation> refused = contradictions(rows);
  const std::vector<Observation> kept = rows_kept(rows, refused);
  Calibration fit = model.fits_curves ? calibrate_curves(model, kept, topology)
                                      : calibrate_constants(model, kept, topology);
  fit.refused = std::move(refused);
  return fit;
}

}  // namespace shardlab
