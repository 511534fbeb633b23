"""What can be proved: bounds, limits and the accounting of privacy."""
