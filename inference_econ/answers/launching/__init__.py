"""Launch plans: engine instances with their options, and a load test that checks the prediction."""
