"""Finding plugins, asking them what they bring, and naming those that cannot."""
