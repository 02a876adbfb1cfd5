"""Sequential inference: e-processes and confidence sequences from summaries, period by period."""
