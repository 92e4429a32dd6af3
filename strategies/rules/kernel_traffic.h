// How many bytes a kernel moves: which of its tensors it reads and writes, and how much of them.
//
//   const KernelTraffic traffic("aten.embedding.default");
//   traffic.add_to(query, {.inputs = bytes, .stored_inputs = stored, .outputs = made,
//                          .input_shapes = shapes});
//
// Most kernels read all of their inputs and write all of their outputs. Some are given tensors that
// they need not read: zeros_like only takes a shape, copy_ overwrites its first input, an `out=`
// tensor is written, an embedding reads the rows of its table that the indices name, and what a
// stride of 0 repeats is read once. index_put_ writes the places that it is given, a fused
// optimizer writes what it updates, and a view or an uninitialised tensor runs no kernel. Bytes
// that a kernel is given and does not move are counted apart, since AutoParallel prices them as
// well.
//
// Status: derived from what the operators compute, with three simplifications. index_put_ counts as
// if it did not accumulate. A tensor that repeats elements by a stride of 0 is taken to do so in
// every layout, although a collective that moves it writes the repeated elements out. An operator
// that is not listed in kernel_traffic.cpp, such as index_fill_, reads and writes everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "costmodel/compute_model.h"
#include "sim/tensor_spec.h"

namespace shardlab {

// What the elements of one rank's part take in memory, where those that a stride of 0 repeats, as
// expand() does, are there once. `local` is the part's shape.
[[nodiscard]] Bytes stored_bytes(const TensorMeta& meta, const Shape& local);

// What one rank holds of a kernel's tensors, by their elements.
struct KernelTensors {
  std::span<const Bytes> inputs;
  std::span<const Bytes> stored_inputs;  // stored_bytes()
  std::span<const Bytes> outputs;
  std::span<const Shape> input_shapes;  // may be empty unless the traffic reads_shapes()
};

class KernelTraffic {
 public:
  // `op` is a whole name, such as "aten.copy_.default". `out_tensors` is how many of the last
  // inputs are `out=` tensors (OpRule::written_outputs).
  explicit KernelTraffic(std::string_view op, std::size_t out_tensors = 0);

  // Whether the bytes depend on the inputs' shapes.
  [[nodiscard]] bool reads_shapes() const;
  // Whether no kernel runs: the output shares the first input's memory, or is not initialised.
  [[nodiscard]] bool runs_nothing() const { return shares_input() || writes_ == Writes::kNone; }
  [[nodiscard]] bool shares_input() const { return writes_ == Writes::kShared; }
  // Whether the kernel reads some inputs in part, or not at all.
  [[nodiscard]] bool leaves_inputs() const { return reads_ != Reads::kAll || out_tensors_ > 0; }
  // Whether the kernel reads or writes some places of the first input, which indices tell for the
  // most part.
  [[nodiscard]] bool moves_a_part() const;

  // How many bytes of an input the kernel reads: all of them at most.
  [[nodiscard]] Bytes read_of(std::size_t input, const KernelTensors& tensors) const;
  // How many bytes of an output it writes. None for outputs that are overwritten inputs
  // (kFirst, kUpdated), which add_to() counts once, from the inputs.
  [[nodiscard]] Bytes written_of(std::size_t output, const KernelTensors& tensors) const;
  // Adds to KernelQuery::bytes, ::unmoved_bytes and ::overwritten_bytes.
  void add_to(KernelQuery& query, const KernelTensors& tensors) const;

 private:
  // How many bytes of the inputs are overwritten: by kFirst and kUpdated.
  [[nodiscard]] Bytes overwritten(const KernelTensors& tensors) const;

  enum class Reads : std::uint8_t {
    kAll,
    kNone,          // the inputs tell a shape, or are overwritten
    kAllButFirst,   // the first input is overwritten
    kAllButSecond,  // the second input tells a shape
    kWritten,       // the part of the first input that is written
    kPicked,        // as many elements of the first input as the outputs have
    kRows,          // a row of the first input for each element of the second
    kClasses,       // one element of each row of the first input, whose dim 1 are the classes
  };
  enum class Writes : std::uint8_t {
    kAll,
    kNone,     // the output is not initialised
    kShared,   // the output is the memory of the first input
    kSource,   // as many elements as the last input has; all if that has only one
    kIndices,  // as many elements as the second input has
    // What the op overwrites of its inputs, whether or not the rule set lists it as outputs:
    kFirst,  // the first input
    // The inputs that have the shape of the first: parameters and moments; the gradients, which are
    // the second input, only where grad_scale is given. Assumes one tensor in each list.
    kUpdated,
  };
  struct Entry {
    std::string_view op;  // a base name with or without an overload
    Reads reads;
    Writes writes = Writes::kAll;
  };
  static const Entry* find(std::string_view op);

  Reads reads_ = Reads::kAll;
  Writes writes_ = Writes::kAll;
  std::size_t out_tensors_ = 0;
  bool takes_tensor_lr_ = false;  // whether a fused optimizer's learning rate is a tensor
};

}  // namespace shardlab
