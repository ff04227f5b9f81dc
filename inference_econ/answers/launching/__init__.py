"""Launch plans: engine instances with their options, and the load test that compares them with the prediction."""
