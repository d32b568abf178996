"""The processes of a job: which one this is, and what starts them. No TensorFlow, no IPU."""
