"""What a traced function is: its tile ops, its native ops, its layers, its device program."""
