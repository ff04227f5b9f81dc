"""Separate pools for prompts and for answers: what they can be made of, their frontier, fleets, fleets under load."""
