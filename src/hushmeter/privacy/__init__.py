"""What an ε means: units of protection, their sensitivity, and how privacy losses add up."""
