#include "codelet_library.h"

#include <dlfcn.h>

#include <sstream>

#include <poplar/exceptions.hpp>

namespace poplar {
inline namespace ipu_tf {
namespace detail {

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char one : text) {
    if (one == '"' || one == '\\') quoted += '\\';
    quoted += one;
  }
  return quoted + "\"";
}

std::string Registration(const std::string& source, const std::vector<VertexClass>& classes,
                         const std::string& counted) {
  std::ostringstream text;
  text << "#include " << Quoted(source) << "\n#include <ipu_tf_callers.h>\n";
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
  text << "  \"\";\nextern \"C\" bool (*const ipu_tf_compute[])(void*) = {\n";
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

namespace {

constexpr const char* kNotOurs =
    ". What was built with the vendor's SDK, for the chip or against its libraries, does not run here. Give "
    "addCodelets the source.";

}  // namespace

std::vector<std::shared_ptr<const VertexType>> LoadCodelets(const std::string& library, const std::string& what) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw file_load_error("The codelets of " + what + " do not load: " + dlerror() + kNotOurs);
  const auto* description = static_cast<const char*>(dlsym(handle, "ipu_tf_vertices"));
  auto* const* functions = static_cast<bool (*const*)(void*)>(dlsym(handle, "ipu_tf_compute"));
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

}  // namespace detail
}  // namespace ipu_tf
}  // namespace poplar
