"""A whole audit in a second or two, for tests of the machinery rather than of the figures."""

CONFIG = """
version: 1
name: tiny
seed: 5
delta: 1e-5
data: {kind: digits, train: 200, pool: 200, test: 100}
model: {kind: mlp, hidden: [8]}
training: {optimizer: sgd, learning_rate: 0.5, batch_size: 50, steps: 12}
mechanisms:
  - {name: plain, kind: non_private}
  - {name: dp, kind: dp_sgd, noise_multiplier: 2.0, clip_norm: 1.0}
games:
  - name: outside
    canaries: mislabelled
    count: 20
    runs: 2
    references: 4
    scorers: [loss, lira]
    estimators: [one_run]
  - name: inside
    access: all_steps
    canaries: dirac_gradient
    count: 60
    mechanisms: [dp]
    scorers: [gradient_product]
    estimators: [one_run]
accountants: [rdp]
certificates: 20
execution: {models_per_job: 2}
"""
