"""`poprun`: starts the instances of a job by an MPI. Standard library alone."""
