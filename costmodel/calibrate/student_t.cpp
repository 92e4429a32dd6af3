#include "costmodel/calibrate/student_t.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>

namespace shardlab {

double student_t_95(double degrees_of_freedom) {
  const boost::math::students_t distribution(std::max(degrees_of_freedom, 1.0));
  return boost::math::quantile(distribution, 0.975);
}

}  // namespace shardlab
