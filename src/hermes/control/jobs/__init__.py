"""Scheduled work: the ticker, the runs of jobs, and jobs as people change them."""
