"""The C++ tile ops and their build; nothing in here is part of the installed package."""
