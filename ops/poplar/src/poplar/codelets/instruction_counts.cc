#include "instruction_counts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <vector>

extern "C" poplar::detail::Counted ipu_tf_counted_call(bool (*compute)(void*), void* state);

// r15 belongs to the caller, so libraries that a codelet calls keep it.
asm(R"(
  .text
  .globl ipu_tf_counted_call
  .hidden ipu_tf_counted_call
  .type ipu_tf_counted_call, @function
ipu_tf_counted_call:
  .cfi_startproc
  pushq %r15
  .cfi_def_cfa_offset 16
  .cfi_offset 15, -16
  xorl %r15d, %r15d
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  movzbl %al, %edx
  movq %r15, %rax
  popq %r15
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size ipu_tf_counted_call, .-ipu_tf_counted_call
)");

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

struct Instruction {
  std::string name;                   // Without the v of AVX.
  std::vector<std::string> operands;  // As AT&T writes them: the destination is the last.
};

bool StartsWith(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

std::string Trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

Instruction Parsed(const std::string& line) {
  const std::string text = Trimmed(line);
  const std::size_t space = text.find_first_of(" \t");
  Instruction one;
  one.name = text.substr(0, space);
  if (one.name.size() > 1 && one.name[0] == 'v' && one.name != "verr" && one.name != "verw") one.name.erase(0, 1);
  if (space == std::string::npos) return one;
  int depth = 0;
  std::string operand;
  for (const char c : text.substr(space)) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      one.operands.push_back(Trimmed(operand));
      operand.clear();
    } else {
      operand += c;
    }
  }
  one.operands.push_back(Trimmed(operand));
  return one;
}

bool IsMemory(const std::string& operand) { return operand.find('(') != std::string::npos; }

bool IsConditionalJump(const Instruction& one) { return one.name[0] == 'j' && !StartsWith(one.name, "jmp"); }

bool EndsBlock(const Instruction& one) { return one.name[0] == 'j' || StartsWith(one.name, "ret"); }

bool SetsOnlyFlags(const Instruction& one) {
  return StartsWith(one.name, "cmp") || StartsWith(one.name, "test") || StartsWith(one.name, "ucomis") ||
         StartsWith(one.name, "comis");
}

// Latency in issue slots, ISA table 4.1; a power is a logarithm, a product and an exponential.
std::uint64_t SlotsOfFunction(const std::string& symbol) {
  static const std::map<std::string, std::uint64_t> known{
      {"expf", 3},  {"exp2f", 3}, {"logf", 6}, {"log2f", 6}, {"log10f", 7},   {"tanhf", 5},    {"sqrtf", 5},
      {"powf", 10}, {"exp", 3},   {"log", 6},  {"sqrt", 5},  {"sigmoidf", 5}, {"sinf", 1 + 8}, {"cosf", 1 + 8}};
  const auto found = known.find(symbol.substr(0, symbol.find('@')));
  return found == known.end() ? 1 : found->second;
}

std::uint64_t Slots(const Instruction& one) {
  const std::string& name = one.name;
  static const char* const kFree[] = {"nop",  "endbr",    "data16",   "zeroupper", "cltq", "cltd",
                                      "cqto", "cvtph2ps", "cvtps2ph", "rep",       "lock"};
  for (const char* const free : kFree) {
    if (StartsWith(name, free)) return 0;
  }
  if (StartsWith(name, "call")) return one.operands.empty() ? 1 : SlotsOfFunction(one.operands[0]);
  if (StartsWith(name, "lea") || EndsBlock(one)) return 1;
  const bool moves = StartsWith(name, "mov") || StartsWith(name, "pinsr") || StartsWith(name, "pextr") ||
                     StartsWith(name, "broadcast") || StartsWith(name, "cvtss2sd") || StartsWith(name, "cvtsd2ss");
  const bool has_memory = std::any_of(one.operands.begin(), one.operands.end(), IsMemory);
  if (moves) return has_memory || (!one.operands.empty() && one.operands[0][0] == '$') ? 1 : 0;
  // Zeros have a register of their own.
  const bool clears = StartsWith(name, "xor") || StartsWith(name, "pxor");
  if (clears && one.operands.size() >= 2 && one.operands[0] == one.operands[1]) return 0;
  // A branch compares with zero itself.
  if (StartsWith(name, "test") && one.operands.size() == 2 && one.operands[0] == one.operands[1]) return 0;
  std::uint64_t slots = 1;
  if (StartsWith(name, "div") && name.find_first_of("sp", 3) == 3) slots = 3;
  if (StartsWith(name, "sqrt")) slots = 5;
  if (!has_memory) return slots;
  const bool writes = IsMemory(one.operands.back()) && !SetsOnlyFlags(one) && one.operands.size() > 1;
  return slots + (writes ? 2 : 1);
}

// The register's number or letters, whatever its width: %eax, %rax and %al are "a".
std::string RegisterOf(const std::string& operand) {
  if (operand.empty() || operand[0] != '%') return "";
  std::string name = operand.substr(1);
  if (name[0] == 'r' && name.size() > 1 && std::isdigit(name[1]) != 0) {
    while (std::isdigit(name.back()) == 0) name.pop_back();
    return name;
  }
  if (StartsWith(name, "xmm") || StartsWith(name, "ymm")) return name.substr(1);
  if (name[0] == 'r' || name[0] == 'e') name.erase(0, 1);
  if (name.size() == 2 && (name[1] == 'x' || name[1] == 'l' || name[1] == 'h')) name.pop_back();
  if (name.size() == 3 && name[2] == 'l') name.pop_back();
  return name;
}

// The register that an instruction advances by a constant: add $4, %rax; inc; lea 4(%rax), %rax.
std::string Advanced(const Instruction& one) {
  if (one.operands.empty()) return "";
  const std::string to = RegisterOf(one.operands.back());
  if (to.empty()) return "";
  if (StartsWith(one.name, "inc") || StartsWith(one.name, "dec")) return to;
  const bool adds = StartsWith(one.name, "add") || StartsWith(one.name, "sub");
  if (adds && one.operands.size() == 2 && one.operands[0][0] == '$') return to;
  if (StartsWith(one.name, "lea") && one.operands[0].find(',') == std::string::npos) {
    const std::size_t open = one.operands[0].find('(');
    const std::string base = one.operands[0].substr(open + 1, one.operands[0].size() - open - 2);
    if (RegisterOf(base) == to) return to;
  }
  return "";
}

// Whether an instruction puts a constant where functions return it.
bool IsReturnedConstant(const Instruction& one) {
  return StartsWith(one.name, "mov") && one.operands.size() == 2 && one.operands[0][0] == '$' &&
         RegisterOf(one.operands[1]) == "a";
}

// The slots of a block; `repeats` says whether it ends with a jump to its own begin.
std::uint64_t BlockSlots(const std::vector<Instruction>& block, bool repeats) {
  std::uint64_t slots = 0;
  for (const Instruction& one : block) slots += Slots(one);
  if (StartsWith(block.back().name, "ret")) {
    for (const Instruction& one : block) slots -= IsReturnedConstant(one) ? Slots(one) : 0;
  }
  if (!repeats || block.size() < 2) return slots;
  std::map<std::string, int> writes;
  for (const Instruction& one : block) {
    if (StartsWith(one.name, "call")) return slots;
    if (!one.operands.empty() && !SetsOnlyFlags(one)) ++writes[RegisterOf(one.operands.back())];
  }
  // Counted: what the jump tests is a register that advances by a constant, against one that stays.
  const Instruction& test = block[block.size() - 2];
  const auto advances = [&](const std::string& name) {
    return std::any_of(block.begin(), block.end(), [&](const Instruction& one) {
      return !name.empty() && Advanced(one) == name && writes[name] == 1;
    });
  };
  bool is_counted = advances(Advanced(test));
  if (SetsOnlyFlags(test) && StartsWith(test.name, "cmp") && test.operands.size() == 2) {
    const std::string a = RegisterOf(test.operands[0]);
    const std::string b = RegisterOf(test.operands[1]);
    const auto stays = [&](const std::string& name, const std::string& operand) {
      return !IsMemory(operand) && writes.count(name) == 0;
    };
    is_counted = (advances(a) && stays(b, test.operands[1])) || (advances(b) && stays(a, test.operands[0]));
  }
  if (!is_counted) return slots;
  slots -= Slots(block.back());
  if (SetsOnlyFlags(test)) slots -= Slots(test);
  for (const Instruction& one : block) {
    if (advances(Advanced(one))) slots -= Slots(one);
  }
  return slots;
}

class Blocks {
 public:
  void Line(const std::string& line) {
    const std::string text = Trimmed(line.substr(0, line.find('#')));
    if (text.empty()) return;
    if (text.back() == ':') {
      Flush();
      label_ = text.substr(0, text.size() - 1);
      out_ << line << '\n';
    } else if (text[0] == '.') {
      (block_.empty() ? out_ : lines_) << line << '\n';
    } else {
      block_.push_back(Parsed(text));
      lines_ << line << '\n';
      if (EndsBlock(block_.back())) Flush();
    }
  }

  std::string Text() {
    Flush();
    return out_.str();
  }

 private:
  void Flush() {
    if (!block_.empty()) {
      const Instruction& last = block_.back();
      const bool repeats = IsConditionalJump(last) && !last.operands.empty() && last.operands[0] == label_;
      const std::uint64_t slots = BlockSlots(block_, repeats);
      if (slots > 0) out_ << "\tleaq\t" << slots << "(%r15), %r15\n";
      out_ << lines_.str();
    }
    block_.clear();
    lines_.str("");
    label_.clear();
  }

  std::ostringstream out_;
  std::ostringstream lines_;
  std::vector<Instruction> block_;
  std::string label_;
};

}  // namespace

std::string CountedAssembly(const std::string& assembly) {
  std::istringstream stream(assembly);
  Blocks blocks;
  for (std::string line; std::getline(stream, line);) blocks.Line(line);
  return blocks.Text();
}

Counted CountedCall(bool (*compute)(void*), void* state) { return ipu_tf_counted_call(compute, state); }

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
