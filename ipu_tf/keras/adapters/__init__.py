"""What the loop asks of a Keras: protocols, which the room of each Keras implements."""
