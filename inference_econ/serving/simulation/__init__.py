"""A server played event by event: streams of requests, the server, what the requests saw."""
