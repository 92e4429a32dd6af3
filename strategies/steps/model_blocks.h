// The blocks of a model, read from a program's labels: the parts that FSDP wraps and that
// activation checkpointing runs again.
//
//   const ModelBlocks blocks = blocks_of(program);
//   blocks.names[blocks.block[node]]       // "layers.3", for a node of a block
//   blocks.is_weight[node]                 // a parameter, or computed from parameters alone
//
// A label names its block by the part up to its first number: "layers.3" in
// "layers.3.attention.wq", "encoder.layer.0" in "encoder.layer.0.output.dense". Anything else is
// outside all blocks. A forward node without a label belongs to the block of the weights that it
// reads or, if it reads none, to the block of the latest value that it reads and that depends on
// weights. Weights are gathered and gradients are reduced by units: a block is a unit, and all
// weights outside the blocks are one, the root. A node that depends on the forward pass alone, but
// that no output of the program needs, runs in the backward pass, as autograd has it. What no node
// reads is an output of a program that names no outputs, gradients and buffer updates. Source:
// PyTorch 2.13.0, torch.distributed.fsdp.fully_shard, as torchtitan 9dec370 applies it: to each
// block, then to the model.
#pragma once

#include <string>
#include <vector>

#include "strategies/programs/program.h"

namespace shardlab {

struct ModelBlocks {
  static constexpr int kOutside = -1;

  std::vector<std::string> names;  // names of the blocks, in the order in which they first occur
  std::vector<int> block;          // by node: its block, or kOutside
  std::vector<Phase> pass;         // by node: the pass in which it runs first
  std::vector<bool> is_weight;     // by node: a parameter, or what depends on parameters alone
  // It says, for each node, whether the node only carries a gradient to its parameter. Such a node
  // is a cast, a change of shape, or a sum of gradients that nothing but gradients reads.
  std::vector<bool> carries_gradient;
  std::vector<std::string> unit_names;
  std::vector<int>
      unit;  // by node: the unit of a weight or of a node that carries a gradient; else -1
};

[[nodiscard]] ModelBlocks blocks_of(const Program& program);

}  // namespace shardlab
