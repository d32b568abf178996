// The kinds of files of codelets.
#ifndef IPU_TF_POPLAR_CODELET_FILE_TYPE_HPP_
#define IPU_TF_POPLAR_CODELET_FILE_TYPE_HPP_

namespace poplar {
inline namespace ipu_tf {

enum class CodeletFileType { PreprocessedAsmSource, AsmSource, CSource, CppSource, IrSource, Object, Auto };

}  // namespace ipu_tf
}  // namespace poplar

#endif  // IPU_TF_POPLAR_CODELET_FILE_TYPE_HPP_
