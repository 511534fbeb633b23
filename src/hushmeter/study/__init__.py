"""Studies: attackers × ε × mechanism × homes × seeds, and what can be read off them."""
