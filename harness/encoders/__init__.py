"""What an encoder is, how a spec string finds and opens one, and the cache of its vectors."""
