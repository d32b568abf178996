"""Programs of tiles: steps, layouts, traffic, memory. Every front end lowers to them."""
