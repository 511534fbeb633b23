"""Programs for developers; they are not part of the installed package."""
