"""What loops and pipelines ask of a Keras: protocols, which the room of each Keras implements."""
