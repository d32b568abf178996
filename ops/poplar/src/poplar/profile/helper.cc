#include "helper.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include <poplar/exceptions.hpp>

#include "../base/prefix.h"

extern char** environ;

namespace poplar {
inline namespace ipu_tf {
namespace detail {
namespace {

template <typename T>
void Append(std::string* bytes, T number) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
}

void AppendText(std::string* bytes, const std::string& text) {
  Append(bytes, static_cast<std::uint32_t>(text.size()));
  *bytes += text;
}

constexpr const char* kAdvice =
    " Install ipu_tf again, and link the program with the libraries that `ipu-tf poplar-config` names.";

}  // namespace

void Records::AddBytes(const std::string& name, const void* data, std::size_t size) {
  ++count_;
  AppendText(&bytes_, name);
  Append(&bytes_, static_cast<std::uint64_t>(size));
  bytes_.append(static_cast<const char*>(data), size);
}

Helper::Helper() {
  const std::string path = PrefixOf(&kAdvice) + "/helper";
  std::ifstream file(path);
  std::string root;
  if (!std::getline(file, python_) || !std::getline(file, root)) {
    throw poplar_error("Cycles and memory come from the Python package ipu_tf, but the file " + path +
                       ", which says where that is, is missing." + kAdvice);
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw poplar_error(std::string("The helper process for cycles and memory gets no socket: ") + std::strerror(errno) +
                       ".");
  }
  const std::string code =
      "import sys\nsys.path.insert(0, sys.argv[1])\nfrom ipu_tf.profile.poplar_helper import main\nmain()";
  const char* words[] = {python_.c_str(), "-c", code.c_str(), root.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  // A group of its own: Ctrl-C is for the program, whose end is the helper's.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawnp(&process_, words[0], &actions, &attributes, const_cast<char* const*>(words), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  socket_ = ends[0];
  if (error != 0) {
    close(socket_);
    throw poplar_error("Cycles and memory come from the Python package ipu_tf, but its Python " + python_ +
                       " cannot be run: " + std::strerror(error) + "." + kAdvice);
  }
}

Helper::~Helper() {
  close(socket_);
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::shared_ptr<Helper> Helper::Shared() {
  static std::mutex mutex;
  static std::shared_ptr<Helper> helper;
  const std::lock_guard<std::mutex> lock(mutex);
  if (helper == nullptr) helper = std::make_shared<Helper>();
  return helper;
}

void Helper::Ended() {
  throw poplar_error("The helper process for cycles and memory ended early; it is " + python_ +
                     " and says why on the standard error output." + kAdvice);
}

void Helper::Send(const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t now = send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) Ended();
    done += static_cast<std::size_t>(now);
  }
}

std::string Helper::Receive(std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t now = recv(socket_, bytes.data() + done, size - done, 0);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) Ended();
    done += static_cast<std::size_t>(now);
  }
  return bytes;
}

std::string Helper::Ask(const std::string& request, const Records& records) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string head;
  AppendText(&head, request);
  Append(&head, records.count());
  Send(head);
  Send(records.bytes());
  const std::string answer = Receive(9);
  std::uint64_t size = 0;
  std::memcpy(&size, answer.data() + 1, sizeof size);
  std::string text = Receive(size);
  if (answer[0] != 0) throw poplar_error(text);
  return text;
}

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
