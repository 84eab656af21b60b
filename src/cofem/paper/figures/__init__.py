"""The paper's figures 1 to 3: their trials, pictures and claims."""
