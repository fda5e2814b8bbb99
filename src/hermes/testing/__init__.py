"""Public fakes and suites: clock, model, platform, crash kit, conformance."""
