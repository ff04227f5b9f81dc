"""Launch plans as files of orchestrators: docker compose, Kubernetes, LeaderWorkerSet, llm-d and Dynamo."""
