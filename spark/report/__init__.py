"""One page about an experiment: what was measured, as pictures, tables and words."""
