"""Request simulator: request streams, the server, and the measured latencies."""
