"""Notices: what is worth telling people who do not look, once each."""
