"""Which deployments could exist: degrees that a user pins, families of layouts, the grid, and what divides."""
