"""The work after a crash or a rebalance: state from pages, epochs, fencing, repairs."""
