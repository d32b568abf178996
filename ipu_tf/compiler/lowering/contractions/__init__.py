"""Lowering of matrix products, convolutions and linear algebra."""
