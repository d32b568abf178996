"""Spellings of earlier releases of TensorFlow and NumPy, while a script that uses them runs.

Each row of a table says what a script wrote, its meaning there and its meaning here, and adapts
today's library. docs/compatibility.md shows the same rows.
"""
