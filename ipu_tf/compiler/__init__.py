"""From shapes and programs to plans for the tiles of the machine."""
