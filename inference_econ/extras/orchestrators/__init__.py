"""Launch plans as files of orchestrators: Docker Compose, Kubernetes, LeaderWorkerSet, llm-d and Dynamo."""
