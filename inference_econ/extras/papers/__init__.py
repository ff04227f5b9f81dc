"""Studies of published results: claims of papers, latent attention, and methods to prefill one prompt."""
