"""Deployments for sessions of agents and users: simulated capacity, prices, comparison with APIs, and daily fleets."""
