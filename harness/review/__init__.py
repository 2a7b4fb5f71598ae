"""Having mined pairs reviewed by a person, and what the verdicts say."""
