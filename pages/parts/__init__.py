"""Parts that several pages share: the engine's session, live frames, words, badges, the GPU card."""
