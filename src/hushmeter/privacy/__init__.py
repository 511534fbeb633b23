"""Units of protection, their sensitivity, and accounting: what an ε means."""
