#include "costmodel/calibrate/next_sizes.h"

#include <algorithm>
#include <cmath>

#include "costmodel/base/index.h"

namespace shardlab {

std::vector<CollectiveQuery> groups_of(std::span<const Observation> rows) {
  std::vector<CollectiveQuery> groups;
  for (const Observation& row : rows) {
    const bool known = std::any_of(groups.begin(), groups.end(), [&](const CollectiveQuery& g) {
      return g.kind == row.query.kind && g.group == row.query.group;
    });
    if (!known)
      groups.push_back({row.query.kind, 0.0, row.query.group, row.query.gpus_per_process});
  }
  return groups;
}

std::vector<CollectiveQuery> advised_sizes(CollectiveQuery group) {
  std::vector<CollectiveQuery> queries;
  for (int i = 0; i < kAdvisedSizes; ++i) {
    group.full_bytes = std::exp2(10 + 2 * i);
    queries.push_back(group);
  }
  return queries;
}

void add_next_sizes(std::vector<NextSize>& sizes, std::span<const CollectiveQuery> queries,
                    const Eigen::MatrixXd& covariance, double noise) {
  const double now = std::max(covariance.trace(), 1e-300);
  for (Eigen::Index c = 0; c < covariance.rows(); ++c) {
    // The variances that a row of query c takes away: conditioning of a normal distribution.
    const double gain = covariance.col(c).squaredNorm() / (covariance(c, c) + noise * noise);
    sizes.push_back({queries[to_index(c)], 100 * (1 - gain / now)});
  }
}

void keep_best_sizes(std::vector<NextSize>& sizes) {
  constexpr std::size_t kKept = 3;
  std::stable_sort(sizes.begin(), sizes.end(), [](const NextSize& a, const NextSize& b) {
    return a.variance_left_percent < b.variance_left_percent;
  });
  if (sizes.size() > kKept) sizes.resize(kKept);
}

}  // namespace shardlab
