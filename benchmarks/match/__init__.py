"""`./dev bench match`: how fast the matcher's index is, alone in a process, and next to other matchers."""
