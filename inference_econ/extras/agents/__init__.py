"""Sessions of agents and users: simulated deployments, capacity, prices, purchases and days."""
