"""How the Gaussian posterior under the present sites is computed: one E-step a file."""
