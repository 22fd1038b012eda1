"""Decoding bytes of JSON and protobuf into items and records."""
