#include <popops/ElementWise.hpp>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string>

#include <popops/ElementWiseUtil.hpp>
#include <poputil/Broadcast.hpp>
#include <poputil/TileMapping.hpp>
#include <poputil/VertexTemplates.hpp>
#include <poputil/exceptions.hpp>

#include "expression.h"
#include "library.h"

namespace popops {
inline namespace ipu_tf {
namespace {

using detail::Expression;
using detail::Part;
using poplar::DebugContext;
using poplar::Graph;
using poplar::Interval;
using poplar::Tensor;
using poplar::program::Sequence;

// A type of vertices that computes an expression, and the fields of its inputs.
struct Codelet {
  std::string type;
  std::string source;  // Empty if the codelet is one of a file.
  const char* file = nullptr;
  // For each field: the input, or the constant.
  struct Field {
    std::string name;
    int input = -1;
    const Part* constant = nullptr;
  };
  std::vector<Field> fields;
};

bool IsOne(const Tensor& tensor) { return tensor.numElements() == 1; }

// The codelet of a file for a single operation.
Codelet Single(const Expression& expression) {
  static const char* const kFields[] = {"a", "b", "c"};
  const Part& root = expression.root();
  Codelet codelet;
  if (root.kind != Part::Kind::kOperation) return codelet;
  std::vector<poplar::Type> types;
  for (const std::size_t one : root.operands) {
    const Part& operand = expression.parts()[one];
    if (operand.kind != Part::Kind::kInput && operand.kind != Part::Kind::kConstant) return Codelet();
    Codelet::Field field{kFields[types.size()]};
    if (operand.kind == Part::Kind::kInput) {
      field.input = static_cast<int>(operand.input);
    } else {
      field.constant = &operand;
    }
    codelet.fields.push_back(field);
    types.push_back(operand.type);
  }
  const std::string op = "popops::op::" + root.name;
  if (types.size() == 1) codelet.type = poputil::templateVertex("popops::Unary", op, types[0]);
  if (types.size() == 2) codelet.type = poputil::templateVertex("popops::Binary", op, types[0]);
  if (types.size() == 3) codelet.type = poputil::templateVertex("popops::Ternary", op, types[0], types[2]);
  codelet.file = types.size() == 1 ? "popops_unary.cpp" : "popops_binary.cpp";
  return codelet;
}

std::string Digest(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char one : text) hash = (hash ^ static_cast<unsigned char>(one)) * 0x100000001b3u;
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

std::string Word(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

// A codelet of its own. Its name says what it computes: the number of inputs and the type of the result, then the
// operations with their types.
Codelet Fused(const Expression& expression, const std::vector<Tensor>& inputs) {
  Codelet codelet;
  std::string edges;
  std::string before;
  std::string each;
  std::vector<std::string> values(inputs.size());
  for (const Part& part : expression.parts()) {
    if (part.kind != Part::Kind::kInput || !values[part.input].empty()) continue;
    const std::string number = std::to_string(part.input);
    const std::string type = detail::CppName(part.type);
    values[part.input] = "x" + number;
    codelet.fields.push_back({"in" + number, static_cast<int>(part.input)});
    edges += "  poplar::Input<poplar::Vector<" + type + ", poplar::VectorLayout::ONE_PTR>> in" + number + ";\n";
    before += "    const " + type + "* const p" + number + " = &in" + number + "[0];\n";
    std::string& where = IsOne(inputs[part.input]) ? before : each;
    where += (&where == &each ? "      const " : "    const ") + type + " x" + number + " = p" + number +
             (&where == &each ? "[i];\n" : "[0];\n");
  }
  const std::string result = detail::CppName(expression.type());
  const std::string code = expression.Code(expression.parts().size() - 1, values);
  const std::string body = edges + "  poplar::Output<poplar::Vector<" + result + ">> out;\n" +
                           "  void compute(unsigned worker) {\n" + before + "    " + result +
                           "* const result = &out[0];\n    const Share share(out.size(), worker);\n" +
                           "    for (unsigned i = share.begin; i < share.end; ++i) {\n" + each +
                           "      result[i] = " + code + ";\n    }\n  }\n";
  std::string name = "Map_" + std::to_string(codelet.fields.size()) + "_" + result;
  for (const std::string& one : expression.Operations()) name += "__" + one;
  name = Word(name + "__" + Digest(body));
  codelet.type = "popops::" + name;
  codelet.source = "#include \"" + detail::CodeletFolder() + "/elements.h\"\nnamespace popops {\nclass " + name +
                   " : public poplar::MultiVertex {\n public:\n" + body + "};\n}\n";
  return codelet;
}

// The codelet of an expression, in the graph.
Codelet CodeletOf(Graph* graph, const Expression& expression, const std::vector<Tensor>& inputs) {
  const Codelet single = Single(expression);
  if (single.file != nullptr) {
    detail::AddFile(graph, single.file, single.type);
    if (graph->hasCodelet(single.type)) return single;
  }
  const Codelet fused = Fused(expression, inputs);
  if (!graph->hasCodelet(fused.type)) {
    std::stringstream source(fused.source);
    graph->addCodelets(source);
  }
  return fused;
}

void ConnectConstant(Graph* graph, const poplar::FieldRef& field, const Part& part) {
  const bool is_floating = part.type == poplar::FLOAT || part.type == poplar::HALF;
  if (is_floating || part.constant->IsFloating()) {
    const double value = part.constant->getDataAsDouble();
    graph->connect(field, poplar::ArrayRef<double>(&value, 1));
  } else {
    const auto value = static_cast<std::int64_t>(part.constant->getDataForUnsignedIntegral());
    graph->connect(field, poplar::ArrayRef<std::int64_t>(&value, 1));
  }
}

// The shape that all tensors broadcast to.
std::vector<std::size_t> CommonShape(const std::vector<Tensor>& inputs, const std::string& call) {
  if (inputs.empty()) throw poputil::poplibs_error("popops::" + call + ": an expression needs a tensor.");
  Tensor all = inputs[0];
  for (Tensor one : inputs) {
    if (!poputil::canBroadcastToMatch(all, one)) {
      throw poputil::poplibs_error("popops::" + call + ": the shapes " + all.shapeToString() + " and " +
                                   one.shapeToString() + " do not broadcast to each other.");
    }
    poputil::broadcastToMatch(all, one);
  }
  return all.shape();
}

void AddVertices(Graph* graph, const Expression& expression, const std::vector<Tensor>& inputs, const Tensor& out,
                 poplar::ComputeSet set) {
  const Codelet codelet = CodeletOf(graph, expression, inputs);
  std::vector<Tensor> flat;
  for (Tensor one : inputs) {
    if (!IsOne(one)) poputil::broadcastToMatch(one, out.shape());
    flat.push_back(one.flatten());
  }
  const Tensor flat_out = out.flatten();
  const bool has_flags = codelet.source.empty() && codelet.fields.size() > 1;
  detail::ForTiles(graph, set, codelet.type, graph->getTileMapping(flat_out),
                   [&](const poplar::VertexRef& vertex, const std::vector<Interval>& part) {
                     graph->connect(vertex["out"], detail::PartOf(flat_out, part));
                     for (const Codelet::Field& field : codelet.fields) {
                       const bool is_one = field.constant != nullptr || IsOne(flat[field.input]);
                       if (has_flags) graph->setInitialValue(vertex[field.name + "_is_one"], is_one ? 1 : 0);
                       if (field.constant != nullptr) {
                         ConnectConstant(graph, vertex[field.name], *field.constant);
                       } else {
                         const Tensor& input = flat[field.input];
                         graph->connect(vertex[field.name], is_one ? input : detail::PartOf(input, part));
                       }
                     }
                   });
}

// A tensor that reads what other vertices write needs the result elsewhere first.
bool ReadsElsewhere(const std::vector<Tensor>& inputs, const Tensor& out) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const Tensor& one) { return one != out && one.intersectsWith(out); });
}

void Apply(Graph* graph, const Expression& expression, const std::vector<Tensor>& inputs, const Tensor& out,
           Sequence* prog, const DebugContext& context, const std::string& call) {
  if (expression.type() != out.elementType()) {
    throw poputil::poplibs_error("popops::" + call + ": the result is of " + expression.type().toString() +
                                 ". Received: an output of " + out.elementType().toString() + ".");
  }
  if (CommonShape(inputs, call) != out.shape()) {
    throw poputil::poplibs_error("popops::" + call + ": the result does not have the shape of the output, " +
                                 out.shapeToString() + ".");
  }
  const bool is_apart = ReadsElsewhere(inputs, out);
  const Tensor result = is_apart ? graph->clone(out, DebugContext(context, call)) : out;
  const poplar::ComputeSet set = graph->addComputeSet(DebugContext(context, call));
  AddVertices(graph, expression, inputs, result, set);
  prog->add(poplar::program::Execute(set));
  if (is_apart) prog->add(poplar::program::Copy(result, out));
}

// What a report calls an expression: its operation.
std::string CallOf(const expr::Expr& expr) {
  const auto* operation = expr.getAs<expr::detail::Operation>();
  if (operation == nullptr) return "map";
  for (const expr::Any& one : operation->operands) {
    const expr::Expr& operand = one;
    if (operand.isA<expr::detail::Operation>()) return "map";
  }
  return operation->Title();
}

}  // namespace

Tensor createOutputForElementWiseOp(Graph& graph, const std::vector<Tensor>& inputs, const poplar::Type& outputType,
                                    const DebugContext& debugContext) {
  const std::vector<std::size_t> shape = CommonShape(inputs, "createOutputForElementWiseOp");
  for (const Tensor& one : inputs) {
    if (one.shape() == shape && one.isParallelWriteable()) return graph.clone(outputType, one, debugContext);
  }
  Tensor out = graph.addVariable(outputType, shape, debugContext);
  poputil::mapTensorLinearly(graph, out);
  return out;
}

void outputGeneratedCodelet(const poplar::Target&, const expr::Expr& expr, const std::vector<Tensor>& ts,
                            const poplar::OptionFlags&, std::ostream& stream) {
  const Expression expression(expr, ts, "outputGeneratedCodelet");
  stream << Fused(expression, ts).source;
}

void mapWithOutput(Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts, const Tensor& out,
                   Sequence& prog, const DebugContext& debugContext, const poplar::OptionFlags&) {
  const std::string call = CallOf(expr);
  const Expression expression(expr, ts, call);
  Apply(&graph, expression, ts, out, &prog, debugContext, call);
}

Tensor map(Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts, Sequence& prog,
           const DebugContext& debugContext, const poplar::OptionFlags&) {
  const std::string call = CallOf(expr);
  const Expression expression(expr, ts, call);
  CommonShape(ts, call);
  const Tensor out = createOutputForElementWiseOp(graph, ts, expression.type(), DebugContext(debugContext, call));
  Apply(&graph, expression, ts, out, &prog, debugContext, call);
  return out;
}

void mapInPlace(Graph& graph, const expr::Expr& expr, const std::vector<Tensor>& ts, Sequence& prog,
                const DebugContext& debugContext, const poplar::OptionFlags& options) {
  if (ts.empty()) throw poputil::poplibs_error("popops::mapInPlace: there is no tensor to write.");
  mapWithOutput(graph, expr, ts, ts[0], prog, debugContext, options);
}

std::vector<Tensor> map(Graph& graph, const std::vector<expr::Any>& exprs, const std::vector<Tensor>& ts,
                        Sequence& prog, const DebugContext& debugContext, const poplar::OptionFlags& options) {
  std::vector<Tensor> results;
  for (const expr::Any& one : exprs) {
    const expr::Expr& expr = one;
    results.push_back(map(graph, expr, ts, prog, debugContext, options));
  }
  return results;
}

void mapWithOutput(Graph& graph, const std::vector<expr::Any>& exprs, const std::vector<Tensor>& ts,
                   const std::vector<Tensor>& outs, Sequence& prog, const DebugContext& debugContext,
                   const poplar::OptionFlags& options) {
  if (exprs.size() != outs.size()) {
    throw poputil::poplibs_error("popops::mapWithOutput: there are " + std::to_string(exprs.size()) +
                                 " expressions. Received: " + std::to_string(outs.size()) + " outputs.");
  }
  // All expressions read what the inputs held before.
  const std::vector<Tensor> results = map(graph, exprs, ts, prog, debugContext, options);
  for (std::size_t i = 0; i < outs.size(); ++i) prog.add(poplar::program::Copy(results[i], outs[i]));
}

void mapInPlace(Graph& graph, const std::vector<expr::Any>& exprs, const std::vector<Tensor>& ts, Sequence& prog,
                const DebugContext& debugContext, const poplar::OptionFlags& options) {
  if (exprs.size() > ts.size()) {
    throw poputil::poplibs_error("popops::mapInPlace: there are " + std::to_string(exprs.size()) +
                                 " expressions. Received: " + std::to_string(ts.size()) + " tensors to write.");
  }
  const std::vector<Tensor> outs(ts.begin(), ts.begin() + static_cast<std::ptrdiff_t>(exprs.size()));
  mapWithOutput(graph, exprs, ts, outs, prog, debugContext, options);
}

}  // namespace ipu_tf
}  // namespace popops
