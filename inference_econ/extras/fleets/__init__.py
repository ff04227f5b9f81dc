"""Fleets over time: days with an autoscaler, contracts, rent or purchase, and RL rollouts."""
