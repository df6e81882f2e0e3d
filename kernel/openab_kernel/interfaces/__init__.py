"""What can be plugged in, one Protocol a file, with its contract in the docstring."""
