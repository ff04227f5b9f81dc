"""Fleets over time: a day with an autoscaler, pricing models, rent or purchase, and RL rollouts."""
