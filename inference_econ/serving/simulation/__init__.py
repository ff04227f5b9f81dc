"""Request simulator: request streams, the server, and the simulated latencies."""
