"""Queues between the host and the programs of the device, and the iterators that read them."""
