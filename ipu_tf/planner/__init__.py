"""Plans of matrix products and convolutions: shapes, splits, costs, and the search."""
