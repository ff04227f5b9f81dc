"""Fleets over time: days with an autoscaler, contracts, rent against purchase, and rollouts of reinforcement learning."""
