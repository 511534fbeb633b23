"""From readings to a release: what is protected, with how much noise, and the receipt."""
