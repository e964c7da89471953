"""One prompt, asked directly: its flow page, cuts, demonstrations, heads, and exchanged states."""
