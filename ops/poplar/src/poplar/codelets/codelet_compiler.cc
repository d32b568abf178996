#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include <poplar/exceptions.hpp>

#include "codelet_files.h"

extern char** environ;

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

// Starts a program without a shell; its error output goes to a file. Returns its exit code.
int ExitCode(const std::vector<std::string>& command, const std::string& log) {
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
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

void CodeletCompiler::Run(const std::vector<std::string>& words) const {
  std::vector<std::string> all = command;
  all.insert(all.end(), words.begin(), words.end());
  if (ExitCode(all, log) == 0) return;
  const std::string said = ReadFile(log);
  if (said.find("Assembler messages") != std::string::npos) {
    throw graph_program_compilation_error("The codelets of " + what +
                                          " contain assembly for the chip, which this machine does not run. Give the "
                                          "C++ of the codelet.\n" +
                                          said);
  }
  throw graph_program_compilation_error("The codelets of " + what + " do not compile:\n" + said);
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
