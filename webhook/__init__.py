"""Muster: an admission webhook for Kubernetes 1.37 Workload-Aware Scheduling.

Read `webhook/admission/pipeline.py` first: it is the whole data path on one screen.
"""

__version__ = "0.1.0"
