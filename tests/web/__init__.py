"""What viewers see: the JSON API, the streams, the page."""
