#include "codelet_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include <poplar/exceptions.hpp>

#include "codelets.h"

namespace poplar {
inline namespace ipu_tf {
namespace detail {

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream stream(path, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw file_load_error("Cannot write the file " + path + ": " + std::strerror(errno) + ".");
}

bool FileExists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

void RenameFile(const std::string& unfinished, const std::string& path) {
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) {
    throw graph_program_compilation_error("Cannot write " + path + ": " + std::strerror(errno) + ".");
  }
}

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

namespace {

void MakeFolders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at + 1);
    mkdir(path.substr(0, at).c_str(), 0700);
  }
}

}  // namespace

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

WorkFolder::WorkFolder(const std::string& cache) : path_(cache + "/work-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) {
    throw graph_program_compilation_error("Cannot make a folder in " + cache + ": " + std::strerror(errno) + ".");
  }
}

WorkFolder::~WorkFolder() {
  for (const char* name :
       {"log", "probe.cpp", "probe.ii", "probe.so", "codelets.cpp", "codelets.so", "counted.s", "slots.s"}) {
    unlink(File(name).c_str());
  }
  rmdir(path_.c_str());
}

std::string RealPath(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  const std::string result = real == nullptr ? path : real;
  std::free(real);
  return result;
}

std::string WriteToCache(const std::string& text, const std::string& suffix) {
  const std::string path = CacheFolder() + "/" + Digest(text) + suffix;
  if (FileExists(path)) return path;
  const std::string unfinished = path + "." + std::to_string(getpid());
  WriteFile(unfinished, text);
  RenameFile(unfinished, path);
  return path;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
