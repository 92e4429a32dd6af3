// A function of the user's that prices collectives, in the place of a cost model by name.
//
//   const ModelChoice choice = choose_function(python_collectives(ask, "mine.py:price"));
//   make_collective_model(choice, topology)->price(query)   // asks the function
#pragma once

#include <string>

#include "costmodel/base/units.h"
#include "costmodel/collective.h"

namespace shardlab {

// Safe to share between threads.
class CollectiveFunction {
 public:
  CollectiveFunction() = default;
  CollectiveFunction(const CollectiveFunction&) = delete;
  CollectiveFunction& operator=(const CollectiveFunction&) = delete;
  virtual ~CollectiveFunction() = default;

  // Where the function stands, as the user typed it: "mine.py:price".
  [[nodiscard]] virtual const std::string& text() const = 0;
  // The price in microseconds, finite and not negative. Throws ConfigError, which names the call,
  // when the function raises an exception or returns anything else.
  [[nodiscard]] virtual Micros price(const CollectiveQuery& query) const = 0;
};

}  // namespace shardlab
