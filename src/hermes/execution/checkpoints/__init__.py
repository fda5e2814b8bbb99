"""Snapshots of workspaces in shadow git stores."""
