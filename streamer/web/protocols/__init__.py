"""What clients and the server speak: connections, checks, events that come in, streams that go out."""
