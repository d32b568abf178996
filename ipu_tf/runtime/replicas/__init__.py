"""Runs a program on several replicas."""
