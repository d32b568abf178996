#include "codelets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>

#include <poplar/exceptions.hpp>

#include "environment.h"
#include "instruction_counts.h"
#include "prefix.h"

extern char** environ;

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Changes with the layout of fields and with what codelets export.
constexpr const char* kVersion = "ipu_tf codelets 5";

// Rounding is that of the codelet's operations one by one: no fused multiply-adds but those it calls.
const std::vector<std::string>& CompileFlags() {
  static const std::vector<std::string> flags{
      "-std=c++17",
      "-fPIC",
      "-mavx2",
      "-mfma",
      "-mf16c",
      "-ffp-contract=off",
      "-w",
      "-D__POPC__=1",
      // The libraries of the chip's compiler have its names everywhere, too.
      "-include",
      "stdint.h",
      "-fno-strict-aliasing",
      "-fno-access-control",
  };
  return flags;
}

std::string Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw file_load_error("Cannot write the file " + path + ": " + std::strerror(errno) + ".");
}

bool Exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// Two hashes of 64 bits (FNV-1a, of different starts).
std::string Digest(const std::string& text) {
  std::uint64_t a = 0xcbf29ce484222325u;
  std::uint64_t b = 0x84222325cbf29ce4u;
  for (const char one : text) {
    a = (a ^ static_cast<unsigned char>(one)) * 0x100000001b3u;
    b = (b ^ static_cast<unsigned char>(one)) * 0x100000001b3u;
    b ^= b >> 29;
  }
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return name;
}

void MakeFolders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    mkdir(path.substr(0, at).c_str(), 0700);
  }
}

// The folder of compiled codelets, which nobody else may write: its files are code.
std::string CacheFolder() {
  const char* chosen = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string folder;
  if (chosen != nullptr && chosen[0] == '/') {
    folder = chosen;
  } else if (home != nullptr && home[0] == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    throw graph_program_compilation_error(
        "Compiled codelets need a folder, but neither XDG_CACHE_HOME nor HOME is set. Set XDG_CACHE_HOME to one.");
  }
  folder += "/ipu_tf/codelets";
  MakeFolders(folder);
  struct stat status;
  if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || access(folder.c_str(), W_OK) != 0) {
    throw graph_program_compilation_error("Compiled codelets cannot be kept in " + folder + ": " +
                                          std::strerror(errno) + ". Set XDG_CACHE_HOME to a folder of yours.");
  }
  if (status.st_uid != geteuid() || (status.st_mode & 022) != 0) {
    throw graph_program_compilation_error("The folder " + folder +
                                          " holds code, but other users may write to it. Run: chmod 700 " + folder);
  }
  return folder;
}

std::vector<std::string> SplitFlags(const std::string& flags) {
  std::istringstream stream(flags);
  return {std::istream_iterator<std::string>(stream), {}};
}

struct Outcome {
  int code = 0;
  std::string words;
};

// Runs a program without a shell; its output is returned.
Outcome Run(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  const int error = posix_spawnp(&process, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw graph_program_compilation_error("Codelets need a C++ compiler, but " + command[0] +
                                          " cannot be run: " + std::strerror(error) +
                                          ". Install g++ (Debian, Ubuntu: apt-get install g++; Fedora: dnf install "
                                          "gcc-c++), or set CXX to one that is there.");
  }
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, Read(log)};
}

// What a compiled library exports for each class: whether it has compute(), and a function that calls it.
constexpr const char* kCallers = R"(
namespace ipu_tf_codelets {
template <class V> constexpr auto Has(int) -> decltype((void)static_cast<V*>(nullptr)->V::compute(), true) { return true; }
template <class V> constexpr auto Has(long) -> decltype((void)static_cast<V*>(nullptr)->V::compute(0u), true) { return true; }
template <class V> constexpr bool Has(...) { return false; }
// In a build that counts issue slots, in r15: those of the worker with most of them.
struct Busiest {
#ifdef IPU_TF_COUNTED
  unsigned long most = 0;
  void Next() {
    unsigned long slots;
    asm volatile("movq %%r15, %0" : "=r"(slots) : : "memory");
    if (slots > most) most = slots;
    asm volatile("xorq %%r15, %%r15" : : : "memory", "cc");
  }
  ~Busiest() { asm volatile("movq %0, %%r15" : : "r"(most) : "memory"); }
#else
  void Next() {}
#endif
};
template <class V> auto Call(V* v, int) -> decltype((void)v->V::compute()) {
  if constexpr (V::ipu_tf_kind == 1) {
    Busiest busiest;
    for (unsigned worker = 0; worker < 6; ++worker) {
      ipu_tf_device::worker = worker, v->V::compute();
      busiest.Next();
    }
    ipu_tf_device::worker = 0;
  } else {
    v->V::compute();
  }
}
template <class V> auto Call(V* v, long) -> decltype((void)v->V::compute(0u)) {
  Busiest busiest;
  for (unsigned worker = 0; worker < 6; ++worker) {
    ipu_tf_device::worker = worker, v->V::compute(worker);
    busiest.Next();
  }
  ipu_tf_device::worker = 0;
}
template <class V> void Compute(void* state) { Call(static_cast<V*>(state), 0); }
template <class V> constexpr auto Caller() {
  if constexpr (Has<V>(0)) { return &Compute<V>; } else { return static_cast<void (*)(void*)>(nullptr); }
}
}
)";

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') quoted += '\\';
    quoted += one;
  }
  return quoted + "\"";
}

// Source that includes the codelets, describes their vertices as text, and has a table of functions.
std::string Registration(const std::string& source, const std::vector<VertexClass>& classes,
                         const std::string& counted) {
  std::ostringstream text;
  text << "#include " << Quoted(source) << "\n" << kCallers;
  text << "extern \"C\" const char ipu_tf_counted[] = " << Quoted(counted) << ";\n";
  text << "extern \"C\" const char ipu_tf_vertices[] =\n";
  for (const VertexClass& one : classes) {
    text << "  \"" << one.type.size << ' ' << one.names.size() << ' ' << one.type.fields.size() << "\\n\"\n";
    for (const std::string& name : one.names) text << "  " << Quoted(name) << "\"\\n\"\n";
    text << "  " << Quoted(one.type.refusal) << "\"\\n\"\n";
    for (const Field& field : one.type.fields) {
      text << "  \"" << field.name << ' ' << int(field.kind) << ' ' << int(field.direction) << ' '
           << int(field.type.kind()) << ' ' << field.offset << ' ' << field.alignment << ' ' << field.has_count << ' '
           << field.rows_have_count << ' ' << field.most_elements << "\\n\"\n";
    }
  }
  text << "  \"\";\nextern \"C\" void (*const ipu_tf_compute[])(void*) = {\n";
  for (const VertexClass& one : classes) {
    text << (one.type.refusal.empty() ? "  ipu_tf_codelets::Caller<" + one.cpp_name + ">(),\n" : "  nullptr,\n");
  }
  text << "  nullptr};\nextern \"C\" const unsigned char ipu_tf_kinds[] = {\n";
  for (const VertexClass& one : classes) {
    text << (one.type.refusal.empty() ? "  " + one.cpp_name + "::ipu_tf_kind,\n" : "  0,\n");
  }
  text << "  0};\n";
  return text.str();
}

constexpr const char* kNotOurs =
    ". What was built with the vendor's SDK, for the chip or against its libraries, does not run here. Give "
    "addCodelets the "
    "source.";

std::vector<std::shared_ptr<const VertexType>> Load(const std::string& library, const std::string& what) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw file_load_error("The codelets of " + what + " do not load: " + dlerror() + kNotOurs);
  const auto* description = static_cast<const char*>(dlsym(handle, "ipu_tf_vertices"));
  auto* const* functions = static_cast<void (*const*)(void*)>(dlsym(handle, "ipu_tf_compute"));
  const auto* kinds = static_cast<const unsigned char*>(dlsym(handle, "ipu_tf_kinds"));
  const auto* counted = static_cast<const char*>(dlsym(handle, "ipu_tf_counted"));
  if (description == nullptr || functions == nullptr || kinds == nullptr || counted == nullptr) {
    throw file_load_error("The file " + what + " holds no codelets of this machine" + kNotOurs);
  }
  std::istringstream text(description);
  std::vector<std::shared_ptr<const VertexType>> found;
  VertexType type;
  type.library = library;
  std::size_t names = 0;
  std::size_t fields = 0;
  std::size_t place = 0;
  while (text >> type.size >> names >> fields) {
    text.ignore();
    std::vector<std::string> spellings(names);
    for (std::string& one : spellings) std::getline(text, one);
    std::getline(text, type.refusal);
    type.fields.resize(fields);
    for (Field& field : type.fields) {
      int kind = 0;
      int direction = 0;
      int element = 0;
      text >> field.name >> kind >> direction >> element >> field.offset >> field.alignment >> field.has_count >>
          field.rows_have_count >> field.most_elements;
      field.kind = static_cast<FieldKind>(kind);
      field.direction = static_cast<Direction>(direction);
      field.type = Type(static_cast<Type::Kind>(element));
    }
    type.compute = *functions++;
    type.kind = static_cast<VertexKind>(*kinds++);
    type.counted_library = counted;
    type.reads_cycles = dlsym(handle, "ipu_tf_reads_cycles") != nullptr;
    type.place = place++;
    for (const std::string& one : spellings) {
      type.name = one;
      // A class without compute() is a base of others.
      if (type.compute != nullptr || !type.refusal.empty()) found.push_back(std::make_shared<VertexType>(type));
    }
  }
  return found;
}

[[noreturn]] void Refuse(const std::string& what, const Outcome& outcome) {
  if (outcome.words.find("Assembler messages") != std::string::npos) {
    throw graph_program_compilation_error("The codelets of " + what +
                                          " contain assembly for the chip, which this machine does not run. Give the "
                                          "C++ of the codelet.\n" +
                                          outcome.words);
  }
  throw graph_program_compilation_error("The codelets of " + what + " do not compile:\n" + outcome.words);
}

void CheckSuffix(const std::string& source, const std::string& what) {
  const std::size_t dot = source.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : source.substr(dot);
  if (suffix == ".S" || suffix == ".s") {
    throw file_load_error("The file " + what + " is assembly for the chip, which this machine does not run. Give the " +
                          "C++ of the codelet.");
  }
  if (!Exists(source)) {
    throw file_load_error("There is no file of codelets " + what + ". Paths are relative to the working directory.");
  }
}

bool IsLibrary(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  char magic[4] = {};
  stream.read(magic, sizeof magic);
  return std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

// Whether a codelet declares float2 for all its code, as that of ipudef.h is; headers for models do.
bool HasOwnVectors(const std::string& text) {
  static const std::string kDeclaration = "\nusing float2 ";
  const std::size_t first = text.find(kDeclaration);
  return first != std::string::npos && text.find(kDeclaration, first + 1) != std::string::npos;
}

// A folder for the files of one compilation, deleted with them at the end.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& cache) : path_(cache + "/work-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      throw graph_program_compilation_error("Cannot make a folder in " + cache + ": " + std::strerror(errno) + ".");
    }
  }
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder() {
    for (const char* name :
         {"log", "probe.cpp", "probe.ii", "probe.so", "codelets.cpp", "codelets.so", "counted.s", "slots.s"}) {
      unlink(File(name).c_str());
    }
    rmdir(path_.c_str());
  }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace

std::string RealPath(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  const std::string result = real == nullptr ? path : real;
  std::free(real);
  return result;
}

std::string CompileToLibrary(const std::string& source, const std::string& flags, const std::string& what) {
  const std::string cache = CacheFolder();
  const WorkFolder work(cache);
  const char* chosen = std::getenv("CXX");
  std::vector<std::string> command{chosen != nullptr && chosen[0] != '\0' ? chosen : "g++"};
  command.insert(command.end(), CompileFlags().begin(), CompileFlags().end());
  command.insert(command.end(), {"-O3", "-isystem", PrefixOf(&kVersion) + "/device"});
  const std::vector<std::string> own_flags = SplitFlags(flags);
  command.insert(command.end(), own_flags.begin(), own_flags.end());
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), command.begin(), command.end());
    const Outcome outcome = Run(words, work.File("log"));
    if (outcome.code != 0) Refuse(what, outcome);
  };
  // The name of the library is a digest of all that it depends on: the text with its headers, flags, compiler.
  Write(work.File("probe.cpp"), "static const char* ipu_tf_compiler = __VERSION__;\n#include " + Quoted(source) + "\n");
  run({"-E", "-P", work.File("probe.cpp"), "-o", work.File("probe.ii")});
  const std::string text = Read(work.File("probe.ii"));
  if (HasOwnVectors(text)) command.push_back("-DIPU_TF_OWN_VECTORS");
  std::string all = std::string(kVersion) + kCallers + text;
  for (const std::string& word : command) all += '\0' + word;
  const std::string library = cache + "/" + Digest(all) + ".so";
  if (Exists(library)) return library;
  // The fields come from the classes as the compiler sees them.
  run({"-O0", "-gdwarf-4", "-gno-split-dwarf", "-fno-eliminate-unused-debug-types", "-shared", work.File("probe.cpp"),
       "-o", work.File("probe.so")});
  const std::vector<VertexClass> classes = FindVertexClasses(work.File("probe.so"));
  const std::string counted = library.substr(0, library.size() - 3) + ".counted";
  Write(work.File("codelets.cpp"), Registration(source, classes, counted));
  run({"-shared", work.File("codelets.cpp"), "-o", work.File("codelets.so")});
  // What counts instructions is compiled when a program asks for it, from this text and this command.
  std::string words;
  for (const std::string& word : command) words += word + '\n';
  Write(counted + ".words", words);
  run({"-E", "-P", "-DIPU_TF_COUNTED", work.File("codelets.cpp"), "-o", counted + ".ii"});
  if (std::rename(work.File("codelets.so").c_str(), library.c_str()) != 0) {
    throw graph_program_compilation_error("Cannot write " + library + ": " + std::strerror(errno) + ".");
  }
  return library;
}

namespace {

// Compiles the build that counts, unless it is there.
void CompileCounted(const std::string& counted, const std::string& what) {
  const std::string library = counted + ".so";
  if (Exists(library)) return;
  if (!Exists(counted + ".ii")) {
    throw file_load_error("The instructions of " + what + " cannot be counted: " + counted +
                          ".ii is gone. Compile the codelets again.");
  }
  const WorkFolder work(CacheFolder());
  std::istringstream stream(Read(counted + ".words"));
  std::vector<std::string> command;
  for (std::string word; std::getline(stream, word);) command.push_back(word);
  const auto run = [&](std::vector<std::string> words) {
    words.insert(words.begin(), command.begin(), command.end());
    const Outcome outcome = Run(words, work.File("log"));
    if (outcome.code != 0) Refuse(what, outcome);
  };
  run({"-O2", "-fno-tree-vectorize", "-ffixed-r15", "-fcf-protection=none", "-fno-asynchronous-unwind-tables", "-g0",
       "-S", counted + ".ii", "-o", work.File("counted.s")});
  Write(work.File("slots.s"), CountedAssembly(Read(work.File("counted.s"))));
  run({"-shared", work.File("slots.s"), "-o", work.File("codelets.so")});
  if (std::rename(work.File("codelets.so").c_str(), library.c_str()) != 0) {
    throw graph_program_compilation_error("Cannot write " + library + ": " + std::strerror(errno) + ".");
  }
}

}  // namespace

void (*CountedFunction(const VertexType& type))(void*) {
  static std::mutex mutex;
  static std::map<std::string, void (*const*)(void*)> loaded;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& functions = loaded[type.counted_library];
  if (functions == nullptr) {
    CompileCounted(type.counted_library, type.name);
    const std::string library = type.counted_library + ".so";
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw file_load_error("The codelets of " + type.name + " do not load: " + dlerror() + ".");
    functions = static_cast<void (*const*)(void*)>(dlsym(handle, "ipu_tf_compute"));
  }
  return functions[type.place];
}

std::uint32_t VertexType::FieldOf(const std::string& field) const {
  for (std::uint32_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == field) return i;
  }
  std::string known;
  for (const Field& one : fields) known += (known.empty() ? "" : ", ") + one.name;
  throw unknown_field("The vertex type " + name + " has no field '" + field + "'. Its fields are: " + known + ".");
}

std::string NormalName(const std::string& name) {
  static const std::vector<std::pair<std::string, std::string>> spellings{
      {"long long unsigned int", "unsigned long long"},
      {"long unsigned int", "unsigned long"},
      {"short unsigned int", "unsigned short"},
      {"long long int", "long long"},
      {"long int", "long"},
      {"short int", "short"},
      {"unsigned int", "unsigned"},
      {"_Float16", "half"},
  };
  std::string text = name;
  for (const auto& [from, to] : spellings) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, from.size(), to);
  }
  std::string normal;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_suffix = (text[i] == 'u' || text[i] == 'l') && !normal.empty() && std::isdigit(normal.back()) != 0 &&
                           (i + 1 == text.size() || std::isalnum(text[i + 1]) == 0);
    if (text[i] != ' ' && !is_suffix) normal += text[i];
  }
  return normal;
}

std::vector<std::shared_ptr<const VertexType>> CompileCodelets(const std::string& source, const std::string& flags,
                                                               const std::string& what) {
  CheckSuffix(source, what);
  if (IsLibrary(source)) return Load(RealPath(source), what);
  const std::string suffix = source.size() < 3 ? "" : source.substr(source.size() - 3);
  if (suffix == ".gp") {
    throw file_load_error("The file " + what +
                          " holds codelets compiled for the chip, which this machine does not run. " +
                          "Give addCodelets the source.");
  }
  const auto started = std::chrono::steady_clock::now();
  const std::string library = CompileToLibrary(RealPath(source), flags, what);
  LogTime("compiled codelets of " + what + ", or found them compiled", started);
  return Load(library, what);
}

std::string WriteToCache(const std::string& text, const std::string& suffix) {
  const std::string path = CacheFolder() + "/" + Digest(text) + suffix;
  if (Exists(path)) return path;
  const std::string unfinished = path + "." + std::to_string(getpid());
  Write(unfinished, text);
  std::rename(unfinished.c_str(), path.c_str());
  return path;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
