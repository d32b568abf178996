// Shapes of outputs that an attribute of an op has.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ipu_tf {

// A shape function: those of the attribute `output_shapes`.
inline absl::Status OutputShapes(tensorflow::shape_inference::InferenceContext* context) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(context->GetAttr("output_shapes", &shapes));
  if (static_cast<int>(shapes.size()) != context->num_outputs()) {
    return absl::InvalidArgumentError("An op with `output_shapes` has one for each of its outputs.");
  }
  for (int i = 0; i < context->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->MakeShapeFromPartialTensorShape(shapes[i], &shape));
    context->set_output(i, shape);
  }
  return absl::OkStatus();
}

}  // namespace ipu_tf
