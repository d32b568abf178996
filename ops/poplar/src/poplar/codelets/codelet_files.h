// The folder of compiled codelets, its files, and the compiler that makes them.
#ifndef IPU_TF_POPLAR_CODELET_FILES_H_
#define IPU_TF_POPLAR_CODELET_FILES_H_

#include <string>
#include <vector>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

// A file as text; empty if there is none.
std::string ReadFile(const std::string& path);
// Raises file_load_error if it cannot be written.
void WriteFile(const std::string& path, const std::string& text);
bool FileExists(const std::string& path);
// Gives a whole file its name. Raises graph_program_compilation_error if that cannot be.
void RenameFile(const std::string& unfinished, const std::string& path);

// 32 letters and digits that stand for a text.
std::string Digest(const std::string& text);

// The folder of compiled codelets, which nobody else may write: its files are code. Raises
// graph_program_compilation_error if it cannot be made or others may write to it.
std::string CacheFolder();

// A folder for the files of one compilation, deleted with them at the end.
class WorkFolder {
 public:
  explicit WorkFolder(const std::string& cache);
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder();
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A compiler with the flags of all its runs.
struct CodeletCompiler {
  std::vector<std::string> command;
  std::string what;  // The codelets, for messages.
  std::string log;   // The file for what the compiler says.

  // Runs it, without a shell, with more words. Raises graph_program_compilation_error if it is missing or refuses.
  void Run(const std::vector<std::string>& words) const;
};

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CODELET_FILES_H_
