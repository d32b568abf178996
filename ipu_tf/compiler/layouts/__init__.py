"""Where tensors lie on tiles: layouts named by their blocks, and placements of tensors in them."""
