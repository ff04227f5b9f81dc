"""Separate pools for prompts and for answers: what they can be made of, fleets under load, both ways on equal terms."""
