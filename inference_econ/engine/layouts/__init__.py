"""Which deployments could exist."""
