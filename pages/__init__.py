"""What a person sees: each page reads trace state and draws it."""
