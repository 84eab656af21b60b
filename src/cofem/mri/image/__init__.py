"""The model ``image``: edges shared by contrasts and directions, its fit and its error bars."""
