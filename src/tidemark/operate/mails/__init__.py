"""Reports by mail and chat: what they say, how they look, and when they are sent."""
