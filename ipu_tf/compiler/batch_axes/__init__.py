"""Which axes of a traced step count samples, and the step of another batch size that follows."""
