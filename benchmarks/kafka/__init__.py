"""`./dev bench kafka`: what Braid does with topics of a real broker, beside what can be done with them at all."""
