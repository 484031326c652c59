"""What the phases share: Muon with AdamW, the average of the weights, checkpoints, and one loop that trains and resumes."""

import os
import time
from pathlib import Path

# Before torch loads OpenMP: where other programs run as well, threads that spin cost three to eight times as much processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch

WORK = Path(os.environ.get("DEMO_TRAIN_DIR", "/work/demo-train"))  # checkpoints, caches, log: outside the repository
SAVE_EVERY = 150  # seconds


def log(text):
    line = f"{time.strftime('%H:%M:%S')} {text}"
    print(line, flush=True)
    with open(WORK / "log.txt", "a") as f:
        f.write(line + "\n")


def write_aside(path, write):
    """Calls write(path of a temporary file) and renames it to `path`, so that `path` is always whole."""
    aside = path.with_name(path.name + ".part")
    write(aside)
    os.replace(aside, path)


def save(name, state):
    write_aside(WORK / f"{name}.pt", lambda path: torch.save(state, path))


def load(name):
    path = WORK / f"{name}.pt"
    return torch.load(path, weights_only=False) if path.exists() else None


# --- optimizer ---


def orthogonal(m):
    """The nearest orthogonal matrix, about: five Newton-Schulz iterations of Muon (K. Jordan, 2024). m: [N, rows, columns]"""
    wide = m.shape[1] <= m.shape[2]
    x = m if wide else m.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x if wide else x.mT


class Optimizer:
    """Muon for the matrices in `muon`, AdamW for the other parameters of the model."""

    def __init__(self, model, muon, muon_rate, adam_rate):
        every = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.muon = [p for name, p in every.items() if muon(name, p)]
        chosen = {id(p) for p in self.muon}
        self.rates = muon_rate, adam_rate
        self.momentum = [torch.zeros_like(p) for p in self.muon]
        self.adam = torch.optim.AdamW([p for p in every.values() if id(p) not in chosen], lr=adam_rate, betas=(0.9, 0.98),
                                      weight_decay=0.0, foreach=True)  # fmt: skip
        self.parameters = list(every.values())

    @torch.no_grad()
    def step(self, factor):
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.adam.param_groups[0]["lr"] = factor * self.rates[1]
        self.adam.step()
        if self.muon:
            self.muon_step(factor)

    def muon_step(self, factor):
        grads = [p.grad for p in self.muon]
        torch._foreach_lerp_(self.momentum, grads, 0.05)
        shapes = {}
        for p, g, m in zip(self.muon, grads, self.momentum):
            shapes.setdefault((p.shape[0], p[0].numel()), []).append((p, torch.lerp(g, m, 0.95)))
        for (rows, columns), group in shapes.items():
            updates = orthogonal(torch.stack([u.reshape(rows, columns) for _, u in group]))
            for (p, _), u in zip(group, updates):
                p.add_(u.reshape(p.shape), alpha=-factor * self.rates[0] * max(1, rows / columns) ** 0.5)

    def state(self):
        return dict(momentum=self.momentum, adam=self.adam.state_dict())

    def restore(self, state):
        for m, saved in zip(self.momentum, state["momentum"]):
            m.copy_(saved)
        self.adam.load_state_dict(state["adam"])


# --- the loop ---


class Schedule:
    """The factor of the learning rates: a linear warm-up, flat, linear to zero."""

    def __init__(self, steps, warm_up=50, flat=0.6):
        self.steps, self.warm_up, self.decay_from = steps, warm_up, int(flat * steps)

    def __call__(self, step):
        return min(1, (step + 1) / self.warm_up, (self.steps - step) / max(1, self.steps - self.decay_from))


def resume(name, schedule):
    """The checkpoint from which a run of this length goes on: the last one, unless its rates fell already for another length."""
    state = load(name)
    return load(f"{name}-flat") if state and falling(state) and state["steps"] != schedule.steps else state


def falling(state):
    return state["step"] > state["decay_from"]


def fit(name, model, optimizer, schedule, loss_of, decay=0.998, every=None):
    """Trains `model` by loss_of(step, rng) -> (loss, text for the log) and leaves the average of its weights in it.

    Resumes from WORK/name.pt, written every SAVE_EVERY seconds. Before the rates fall, the state is kept as WORK/name-flat.pt as
    well, from where a longer run can go on.
    every: (number of steps, function of the step called with the averaged weights in the model)
    """
    state = resume(name, schedule)
    weights = list(model.parameters())
    mean = [w.detach().clone() for w in weights]
    first, flat = 0, not state or not falling(state)
    if state:
        model.load_state_dict(state["model"])
        optimizer.restore(state["optimizer"])
        mean, first = state["mean"], state["step"]

    def keep(suffix, step):
        save(name + suffix, dict(model=model.state_dict(), optimizer=optimizer.state(), mean=mean, step=step, steps=schedule.steps,
                                 decay_from=schedule.decay_from))  # fmt: skip

    log(f"{name}: steps {first} to {schedule.steps}, {sum(w.numel() for w in weights) / 1e6:.2f} M parameters")
    saved, told, told_step, cpu = time.time(), time.time(), first, time.process_time()
    for step in range(first, schedule.steps):
        if step >= schedule.decay_from and flat:
            keep("-flat", step)
            flat = False
        loss, text = loss_of(step, np.random.default_rng((7, step)))
        for w in weights:
            w.grad = None
        loss.backward()
        optimizer.step(schedule(step))
        with torch.no_grad():
            torch._foreach_lerp_(mean, weights, 1 - min(decay, (step + 1) / (step + 10)))
        if (step + 1) % 25 == 0 or step + 1 == schedule.steps:
            n = step + 1 - told_step
            wall, busy = (time.time() - told) / n, (time.process_time() - cpu) / n
            log(f"{name} {step + 1}/{schedule.steps} {text()} {wall:.2f} s/step, {busy:.2f} cpu")
            told, told_step, cpu = time.time(), step + 1, time.process_time()
        if time.time() - saved > SAVE_EVERY or step + 1 == schedule.steps:
            keep("", step + 1)
            saved = time.time()
        if every and (step + 1) % every[0] == 0:
            with averaged(weights, mean):
                every[1](step + 1)
    put(weights, mean)
    return model.eval()


@torch.no_grad()
def put(weights, values):
    torch._foreach_copy_(weights, values)


class averaged:
    """Within it, the weights are the averaged ones."""

    def __init__(self, weights, mean):
        self.weights, self.mean = weights, mean

    def __enter__(self):
        self.kept = [w.detach().clone() for w in self.weights]
        put(self.weights, self.mean)

    def __exit__(self, *_):
        put(self.weights, self.kept)


def load_mean(name, model):
    """The averaged weights of the checkpoint WORK/name.pt into `model`; the step, or None where there is no checkpoint."""
    state = load(name)
    if not state:
        return None
    model.load_state_dict(state["model"])
    put(list(model.parameters()), state["mean"])
    model.eval()
    return state["step"]
