"""Keras 2 spellings for Keras 3, while a script of the vendor's TensorFlow runs.

`SPELLINGS` lists them: each row says how Keras 2 was written, its meaning there and its meaning
here, and adapts Keras. docs/compatibility.md shows the same rows.
"""
