"""What every room may use: spans, conversion of dataclasses, deprecated names, objects of users."""
