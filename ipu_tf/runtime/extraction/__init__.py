"""Extracts the HLO of a traced function."""
