"""The words everybody shares: frozen data, closed unions, ports, errors. Standard library only."""
