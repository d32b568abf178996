// Counts the instructions that codelets would run on the machine.
#ifndef IPU_TF_POPLAR_INSTRUCTION_COUNTS_H_
#define IPU_TF_POPLAR_INSTRUCTION_COUNTS_H_

#include <cstdint>
#include <string>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// Returns assembly that adds the issue slots of each basic block to register r15, which the compiler left alone
// (-ffixed-r15), when the block begins.
//
// An instruction takes a slot; those that the machine does without take none, and operands in memory are loads and
// stores of their own:
//   - loads advance their address, operations have three operands, so neither index arithmetic of a small loop nor
//   moves
//     between registers take one (ld32step and others, ISA 3.7);
//   - a block that repeats itself a number of times that is known when it begins has no branch (rpt, ISA 3.8);
//   - division, roots and transcendental functions take as many as their latency (ISA table 4.1);
//   - a constant that a function returns is an operand of the instruction that ends it.
// Bundles of two instructions are not formed.
//
// Args:
//   assembly: What g++ -S prints for x86-64.
std::string CountedAssembly(const std::string& assembly);

// The issue slots that a call took, and what it returned.
struct Counted {
  std::uint64_t slots;
  std::uint64_t status;
};

// Calls a function of such assembly with its only argument.
Counted CountedCall(bool (*compute)(void*), void* state);

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_INSTRUCTION_COUNTS_H_
