"""Makes the step of a model of many equal blocks from the trace of a few of them."""
