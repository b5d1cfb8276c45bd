"""What clients speak with the page's server besides plain questions."""
