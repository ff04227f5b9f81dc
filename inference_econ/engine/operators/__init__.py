"""The operator table: what one step must do, operator by operator, as arrays over deployments."""
