"""A real Kubernetes 1.37.2 control plane for tests and demos: see README.md in this folder."""
