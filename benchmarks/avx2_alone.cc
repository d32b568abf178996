// A library to preload: the process finds a processor with AVX2 and nothing beyond it.
//
// Settings of one library do not hold another one: XLA's products ignore those of oneDNN. So CPUID itself answers
// otherwise. Linux lets the instruction fault in a thread and in those that it starts (arch_prctl(2), ARCH_SET_CPUID),
// and the handler of the fault gives the processor's answer without the features. XGETBV still tells of registers of
// AVX-512, which nobody asks for without its features. Bits: Intel 64 and IA-32 Architectures Software Developer's
// Manual, volume 2A, CPUID, leaf 7.
#include <asm/prctl.h>
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace {

constexpr int kArchSetCpuid = 0x1012;  // ARCH_SET_CPUID; not all headers have it.

constexpr uint32_t Bits(std::initializer_list<int> bits) {
  uint32_t mask = 0;
  for (const int bit : bits) mask |= uint32_t{1} << bit;
  return mask;
}

// AVX-512 with its extensions; in EDX also AMX.
constexpr uint32_t kLeaf7Ebx = Bits({16, 17, 21, 26, 27, 28, 30, 31});
constexpr uint32_t kLeaf7Ecx = Bits({1, 6, 11, 12, 14});
constexpr uint32_t kLeaf7Edx = Bits({2, 3, 8, 22, 23, 24, 25});
// AVX-VNNI, AVX-512 for bfloat16, AMX for float16, AVX-IFMA.
constexpr uint32_t kSubleaf1Eax = Bits({4, 5, 21, 23});

bool LetCpuidRun(bool runs) { return syscall(SYS_arch_prctl, kArchSetCpuid, runs ? 1 : 0) == 0; }

void Answer(int signal_number, siginfo_t* info, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* at = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  const bool is_cpuid = info->si_code == SI_KERNEL && at[0] == 0x0f && at[1] == 0xa2;
  if (!is_cpuid) {
    signal(signal_number, SIG_DFL);  // The instruction faults again, and ends the process.
    return;
  }
  const auto leaf = static_cast<uint32_t>(registers[REG_RAX]), subleaf = static_cast<uint32_t>(registers[REG_RCX]);
  uint32_t a, b, c, d;
  LetCpuidRun(true);
  __cpuid_count(leaf, subleaf, a, b, c, d);
  LetCpuidRun(false);
  if (leaf == 7 && subleaf == 0) {
    b &= ~kLeaf7Ebx;
    c &= ~kLeaf7Ecx;
    d &= ~kLeaf7Edx;
  } else if (leaf == 7 && subleaf == 1) {
    a &= ~kSubleaf1Eax;
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

// Before the constructors of other libraries, some of which ask for the processor.
__attribute__((constructor(101))) void Begin() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = Answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  LetCpuidRun(false);
}

}  // namespace
