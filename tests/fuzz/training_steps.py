"""Random steps of training, each run several times by the program and by eager, on other data and sizes.

    python -m tests.fuzz.training_steps 200 --seed 7

A step is drawn as text: a net of layers, an optimizer with options and groups, a schedule, how gradients are asked
for, changed, dropped or left to the next call, what is written beside them (averages, counts), and what is returned. It
is captured directly before its first step or after one, and then called with the state that it left: what it returns,
and every weight and buffer among its state, must be what eager has after as many steps.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

import irkit
from irkit.errors import IrkitError
from tests.support.draws import seeds_asked
from tests.support.written_functions import function_of

SIZES = (3, 2, 5, 1, 4)
NOT_KEPT = "and the program does not"
TURNS = 3
"""In how many ways inputs are moved by their last digit."""
Given = list[tuple[torch.Tensor, torch.Tensor]]

LAYERS = (
    "nn.Linear(4, 4)", "nn.Linear(4, 4, bias=False)", "nn.Tanh()", "nn.GELU()", "nn.LayerNorm(4)",
    "nn.BatchNorm1d(4)", "nn.BatchNorm1d(4, momentum=None)", "nn.BatchNorm1d(4, track_running_stats=False)",
    "nn.PReLU()", "nn.Softplus()", "nn.BatchNorm1d(4, affine=False, momentum=0.3)", "weight_norm(nn.Linear(4, 4))",
    "spectral_norm(nn.Linear(4, 4))", "orthogonal(nn.Linear(4, 4))", "Reversed()", "Held(nn.Linear(4, 4))",
    "Checkpointed(nn.Linear(4, 4))", "Gated()", "Doubling()", "Setup()", "Counted()", "Averaged()", "Frozen()",
    "Half()", "nn.Identity()", "Clamped()", "Stop()", "nn.Dropout(0.0)", "nn.Softmax(-1)", "Recurrent()",
    "Convolved()", "Embedded()", "Sorted()", "Codes()", "Tied()", "Raw()", "nn.GroupNorm(2, 4)", "Normed()",
    "Scripted()",
)  # fmt: skip
OPTIMIZERS = (
    "optim.SGD({w}, lr=0.1)", "optim.SGD({w}, lr=0.1, momentum=0.9)",
    "optim.SGD({w}, lr=0.05, momentum=0.8, nesterov=True)", "optim.SGD({w}, lr=0.05, momentum=0.8, dampening=0.5)",
    "optim.SGD({w}, lr=0.1, weight_decay=0.1, maximize=True)", "optim.Adam({w}, lr=0.01)",
    "optim.AdamW({w}, lr=0.01, amsgrad=True)", "optim.Adam({w}, lr=0.01, foreach=True)",
    "optim.RMSprop({w}, lr=0.01, momentum=0.5, centered=True)", "optim.Adagrad({w}, lr=0.05, lr_decay=0.1)",
    "optim.Adadelta({w})", "optim.NAdam({w}, lr=0.01)", "optim.RAdam({w}, lr=0.01)", "optim.Adamax({w}, lr=0.01)",
    "optim.ASGD({w}, lr=0.05)", "optim.SGD({w}, lr=torch.tensor(0.1))",
    "optim.Adam({w}, lr=0.01, capturable=False, eps=1e-3)",
)  # fmt: skip
SCHEDULES = (
    "S.StepLR(opt, 2, 0.5)", "S.ExponentialLR(opt, 0.7)", "S.CosineAnnealingLR(opt, 5)",
    "S.LinearLR(opt, 0.5, 1.0, 3)", "S.LambdaLR(opt, lambda e: 1 / (1 + e))",
    "S.OneCycleLR(opt, 0.2, total_steps=20, cycle_momentum=False)", "S.PolynomialLR(opt, 5)",
    "S.SequentialLR(opt, [S.ConstantLR(opt, 0.5, 2), S.ExponentialLR(opt, 0.9)], [2])",
    "S.CyclicLR(opt, 0.01, 0.1, 2, cycle_momentum=False)", "S.CosineAnnealingWarmRestarts(opt, 2)",
    "S.MultiplicativeLR(opt, lambda e: 0.9)",
    "S.ChainedScheduler([S.ConstantLR(opt, 0.5, 2), S.ExponentialLR(opt, 0.9)])", "S.MultiStepLR(opt, [1, 3], 0.3)",
)  # fmt: skip
LOSSES = (
    "F.mse_loss(out, y)", "F.smooth_l1_loss(out, y)", "F.cross_entropy(out, y.softmax(-1))", "F.l1_loss(out, y)",
    "F.cross_entropy(out, y.argmax(-1), label_smoothing=0.1)", "(out * y).sum().tanh()",
    "F.huber_loss(out, y, delta=0.3)", "F.mse_loss(out, y) + 0.1 * sum(p.pow(2).sum() for p in net.parameters())",
    "F.kl_div(out.log_softmax(-1), y.softmax(-1), reduction='batchmean')", "torch.logsumexp(out - y, -1).mean()",
    "(out - y).norm()", "F.cosine_embedding_loss(out, y, torch.ones(x.shape[0]))",
    "F.mse_loss(out, y) + net(x * 0.5).pow(2).mean()", "F.mse_loss(out, net(x).detach() + y)",
    "torch.where(y > 0, out, out * 2).pow(2).mean()", "F.binary_cross_entropy_with_logits(out, y.sigmoid())",
    "F.nll_loss(F.log_softmax(out, -1), y.argmax(-1))", "(out.cumsum(0) - y).abs().max()",
    "out.sort(-1).values[:, -1].sum() - (out * y).mean()", "F.triplet_margin_loss(out, y, y.flip(0))",
    "torch.linalg.norm(out - y, dim=-1).sum()", "(out.std(-1) - y.var(-1)).pow(2).sum()",
    "F.mse_loss(out, y) * len(x)", "F.mse_loss(out, y, reduction='none')[:1].sum()",
)  # fmt: skip
BACKWARD = (
    "loss.backward()", "loss.backward()", "loss.backward()", "(loss * 2).backward()",
    "loss.backward(torch.tensor(0.5))", "loss.backward(retain_graph=True); (loss * 0.5).backward()",
    "for p, g in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True)): p.grad = g",
    "for p, g in zip(weights, torch.autograd.grad(loss, weights, allow_unused=True, "
    "materialize_grads=True)): p.grad = g.clone()",
    "gs = torch.autograd.grad(loss, weights, create_graph=True, allow_unused=True); (loss + "
    "sum(g.pow(2).sum() for g in gs if g is not None) * 0.1).backward()",
    "g, = torch.autograd.grad(loss, out, create_graph=True); (loss + g.pow(2).sum()).backward()",
    "torch.autograd.backward([loss, out.sum() * 0.1])", "loss.backward(inputs=weights[:1])",
    "loss.backward(inputs=weights)", "h = out.register_hook(lambda g: g * 2); loss.backward(); h.remove()",
    "out.retain_grad(); loss.backward(); extra.append(out.grad.sum())", "loss.backward(create_graph=True)",
    "mean = sum(loss / 2 for _ in range(2)); mean.backward()",
    "with torch.autograd.set_detect_anomaly(False): loss.backward()",
    "for part, want in zip(x.split(2), y.split(2)): F.mse_loss(net(part), want).backward()",
    "for k in range(2): (F.mse_loss(net(x * (k + 1)), y) / 2).backward()",
    "with torch.autograd.graph.save_on_cpu(): inner = F.mse_loss(net(x), y)\n    inner.backward()",
    "gs = torch.func.grad(lambda w: F.mse_loss(torch.func.functional_call(net, w, (x,)), "
    "y))(dict(net.named_parameters()))\n    for n, p in net.named_parameters(): p.grad = gs[n].detach()",
    "v, pull = torch.func.vjp(lambda w: torch.func.functional_call(net, w, (x,)), {n: p.detach() for n, "
    "p in net.named_parameters()})\n    gs, = pull(torch.ones_like(v))\n    for n, p in "
    "net.named_parameters(): p.grad = gs[n]",
)  # fmt: skip
CHANGES = (
    "nn.utils.clip_grad_norm_(net.parameters(), 0.5)", "nn.utils.clip_grad_value_(net.parameters(), 0.1)",
    "extra.append(nn.utils.clip_grad_norm_(net.parameters(), 1.0, norm_type=float('inf')))",
    "for p in weights: p.grad is None or p.grad.mul_(0.5)", "weights[0].grad = None",
    "weights[-1].grad = torch.ones_like(weights[-1])",
    "for p in weights:\n        if p.grad is not None: p.grad = p.grad.tanh()",
    "for p in weights: p.grad is None or p.grad.div_(p.grad.abs().max() + 1e-3)",
    "extra.append(torch.stack([p.grad.norm() for p in weights if p.grad is not None]).norm())",
    "weights[0].grad is None or weights[0].grad.zero_()",
    "extra.append(nn.utils.get_total_norm([p.grad for p in weights if p.grad is not None]))",
    "nn.utils.clip_grads_with_norm_(weights, 0.4, torch.tensor(0.9))",
    "for p in weights: p.grad is None or p.grad.copy_(torch.where(p.grad.isnan(), 0, p.grad))",
    "extra.append(sum(p.grad.sum() for p in weights if p.grad is not None))",
    "extra.append(nn.utils.parameters_to_vector(weights).sum())",
    "flat = torch.cat([p.grad.reshape(-1) for p in weights if p.grad is not None]); "
    "extra.append(flat.topk(3).values)",
)  # fmt: skip
BESIDE = (
    "with torch.no_grad():\n        for p in weights: p.mul_(0.99)",
    "with torch.no_grad():\n        for p, a in zip(weights, averages): a.lerp_(p, 0.1)",
    "for p, a in zip(weights, averages): a.mul_(0.9).add_(p.detach(), alpha=0.1)",
    "count.add_(1); extra.append(count.clone())",
    "for p, a in zip(weights, averages): a.data = a.data * 0.9 + p.data * 0.1", "weights[0].data.clamp_(-0.5, 0.5)",
    "torch._foreach_mul_(averages, 0.5); torch._foreach_add_(averages, [p.detach() for p in weights])",
    "history.copy_(torch.cat([history[1:], loss.detach().reshape(1)])); extra.append(history.mean())",
    "history[count.item() % 3] = loss.detach(); count.add_(1)", "count += 1",
    "extra.append(sum(a.sum() for a in averages))",
    "with torch.no_grad(): weights[0].copy_(weights[0] / weights[0].norm().clamp(min=1))",
    "swa.update_parameters(net)", "swa.update_parameters(net); extra.append(swa(x).detach().sum())",
    "with torch.inference_mode(): extra.append(net(x).sum() * 1)",
    "net.eval(); extra.append(net(x).detach()); net.train()", "weights[0].detach().add_(0.01)",
    "with torch.no_grad(): weights[-1] -= 0.01 * (weights[-1].grad if weights[-1].grad is not None else 0)",
    "net.requires_grad_(False); extra.append(net(x).mean()); net.requires_grad_(True)",
    "opt.param_groups[0]['lr'] = 0.03", "opt.param_groups[0]['lr'] = 0.1 * x.detach().abs().mean()",
    "opt.zero_grad(set_to_none=False)", "net.zero_grad()", "history.mul_(0.5)",
    "old = [p.clone() for p in weights]\n    opt.step()\n    extra.append(sum((p - o).abs().sum() for p, o "
    "in zip(weights, old)).detach())",
    "with torch.no_grad():\n        for p in weights:\n            if p.grad is not None: p.add_(p.grad, "
    "alpha=-0.05)",
    "opt2.step()", "opt2.zero_grad(); extra.append(net(x).sum().detach())",
    "torch.nn.utils.vector_to_parameters(torch.nn.utils.parameters_to_vector(weights) * 0.9, weights)",
    "for b in net.buffers():\n        if b.is_floating_point(): b.mul_(0.9)",
    "net.load_state_dict({k: v * 0.9 if v.is_floating_point() else v for k, v in net.state_dict().items()})",
)  # fmt: skip
ZERO = (
    "opt.zero_grad()", "opt.zero_grad()", "opt.zero_grad(set_to_none=False)", "net.zero_grad()",
    "for p in weights: p.grad = None", "",
)  # fmt: skip
RETURNED = (
    "loss.detach()", "loss.detach()", "loss", "loss.detach(), net(x).detach()", "out", "loss.item()",
    "loss.detach(), weights[0].detach().clone()", "loss.detach(), [p.grad for p in weights]", "float(loss.detach())",
)  # fmt: skip
HEAD = """
def make(torch, kind):
    nn, F, optim, S = torch.nn, torch.nn.functional, torch.optim, torch.optim.lr_scheduler
    of = nn.utils.parametrizations
    weight_norm, spectral_norm, orthogonal = of.weight_norm, of.spectral_norm, of.orthogonal
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w); ctx.k = 3
            return x * w
        @staticmethod
        def backward(ctx, g):
            x, w = ctx.saved_tensors
            first, second = ctx.needs_input_grad
            return g * w if first else None, (g * x).sum(0) * ctx.k if second else None
    class Apart(torch.autograd.Function):
        @staticmethod
        def forward(x): return x.sign() * x.abs().sqrt(), x.abs()
        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[1]); ctx.mark_non_differentiable(output[1])
        @staticmethod
        def backward(ctx, g, _):
            x, a = ctx.saved_tensors
            return g * (a + 0.1) + x * 0.01
    class Flip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x.view_as(x)
        @staticmethod
        def backward(ctx, g): return -0.5 * g
    class Reversed(nn.Module):
        def forward(s, x): return Flip.apply(x)
    class Setup(nn.Module):
        def forward(s, x): return Apart.apply(x)[0]
    class Doubling(nn.Module):
        def __init__(s): super().__init__(); s.w = nn.Parameter(torch.rand(4))
        def forward(s, x): return Twice.apply(x, s.w)
    class Held(nn.Module):
        def __init__(s, m):
            super().__init__(); s.m = m
            m.register_full_backward_hook(lambda m, gi, go: tuple(g if g is None else g * 0.5 for g in gi))
            m.weight.register_hook(lambda g: g.clamp(-0.2, 0.2))
        def forward(s, x): return s.m(x)
    class Checkpointed(nn.Module):
        def __init__(s, m): super().__init__(); s.m = m
        def forward(s, x): return torch.utils.checkpoint.checkpoint(lambda z: s.m(z).tanh(), x, use_reentrant=False)
    class Gated(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.randn(4, 4))
            s.register_buffer('mask', torch.tensor([1., 0., 1., 1.]))
        def forward(s, x): return x * s.mask + (x @ s.w).sigmoid().detach() * x
    class Counted(nn.Module):
        def __init__(s): super().__init__(); s.register_buffer('n', torch.tensor(0.0))
        def forward(s, x):
            if s.training: s.n += 1
            return x / s.n.clamp(min=1)
    class Averaged(nn.Module):
        def __init__(s): super().__init__(); s.register_buffer('mean', torch.zeros(4))
        def forward(s, x):
            with torch.no_grad(): s.mean = 0.9 * s.mean + 0.1 * x.mean(0)
            return x - s.mean
    class Frozen(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.Parameter(torch.randn(4, 4) / 2, requires_grad=False)
            s.b = nn.Parameter(torch.zeros(4))
        def forward(s, x): return x @ s.w + s.b
    class Half(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.Linear(4, 4)
        def forward(s, x): return torch.cat([s.l(x)[:, :2], x[:, 2:].detach()], 1)
    class Clamped(nn.Module):
        def __init__(s): super().__init__(); s.w = nn.Parameter(torch.ones(4))
        def forward(s, x):
            with torch.no_grad(): s.w.clamp_(0.5, 0.98)
            return x * s.w
    class Stop(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.Linear(4, 4)
        def forward(s, x): q = s.l(x); return x + (q.round() - x).detach() + 0.1 * q
    class Recurrent(nn.Module):
        def __init__(s): super().__init__(); s.r = nn.GRU(4, 4, batch_first=True)
        def forward(s, x): return s.r(torch.stack([x, x * 0.5], 1))[0][:, -1]
    class Convolved(nn.Module):
        def __init__(s): super().__init__(); s.c = nn.Conv1d(1, 2, 3, padding=1); s.n = nn.BatchNorm1d(2)
        def forward(s, x): return F.max_pool1d(s.n(s.c(x[:, None])), 2).flatten(1)
    class Embedded(nn.Module):
        def __init__(s): super().__init__(); s.e = nn.Embedding(5, 4, padding_idx=0)
        def forward(s, x): return x + s.e((x[:, 0].abs() * 2).long().clamp(max=4))
    class Sorted(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.Linear(4, 4)
        def forward(s, x): return s.l(x).sort(-1)[0].cummax(-1)[0]
    class Codes(nn.Module):
        def __init__(s):
            super().__init__()
            s.register_buffer('codes', torch.randn(3, 4))
            s.register_buffer('used', torch.zeros(3))
        def forward(s, x):
            i = torch.cdist(x, s.codes).argmin(1)
            if s.training:
                with torch.no_grad():
                    hot = F.one_hot(i, 3).to(x.dtype); s.used.mul_(0.9).add_(hot.sum(0), alpha=0.1)
                    s.codes.add_((hot.t() @ x - s.codes) * 0.1)
            return x + (s.codes[i] - x).detach()
    class Tied(nn.Module):
        def __init__(s): super().__init__(); s.a = nn.Linear(4, 4); s.b = nn.Linear(4, 4); s.b.weight = s.a.weight
        def forward(s, x): return s.b(s.a(x).tanh())
    class Raw(nn.Module):
        def __init__(s):
            super().__init__()
            s.w = nn.ParameterList([nn.Parameter(torch.rand(4)) for _ in range(2)])
            s.register_buffer('prev', torch.zeros(4))
        def forward(s, x):
            y = x * s.w[0] + s.prev * s.w[1]
            s.prev.copy_(y.detach().mean(0))
            return y
    class Normed(nn.Module):
        def __init__(s): super().__init__(); s.w = nn.Parameter(torch.randn(4, 4))
        def forward(s, x): return F.linear(F.normalize(x), F.normalize(s.w))
    class Scripted(nn.Module):
        def __init__(s): super().__init__(); s.l = nn.Linear(4, 4)
        def forward(s, x):
            y = s.l(x); z = y.clone(); z[:, 0] = z[:, 0] * 2; z[y > 0] *= 0.5; z.relu_()
            return z + y
"""


def text_of(seed: int) -> str:
    """The text of a function that makes a step and its net."""
    draw = random.Random(seed)
    layers = [draw.choice(LAYERS) for _ in range(draw.randint(1, 4))]
    optimizer = draw.choice(OPTIMIZERS)
    groups = draw.random() < 0.25
    two = "[{'params': weights[:1], 'lr': 0.02}, {'params': weights[1:], 'weight_decay': 0.1}]"
    weights = two if groups else "weights"
    scheduled = draw.random() < 0.4
    body = [draw.choice(ZERO) if draw.random() < 0.8 else ""]
    body += ["out = net(x)", f"loss = {draw.choice(LOSSES)}", draw.choice(BACKWARD)]
    body += draw.sample(CHANGES, draw.choice((0, 0, 1, 1, 2)))
    body.append("opt.step()")
    if draw.random() < 0.15:
        body.append("opt.zero_grad()")
    if scheduled:
        body.append("sched.step()")
    for each in draw.sample(BESIDE, draw.choice((0, 0, 1, 1, 2))):
        body.insert(draw.randint(4 if "loss" in each else 2, len(body)), each)
    returned = draw.choice(RETURNED)
    used = "".join(body)
    lines = [
        HEAD,
        f"    net = nn.Sequential(nn.Linear(4, 4), {', '.join(layers)}).to(kind)",
        "    weights = [p for p in net.parameters() if p.requires_grad]",
        "    averages = [p.detach().clone() * 0 for p in weights]",
        "    count, history = torch.tensor(0), torch.zeros(3, dtype=kind)",
        "    swa = optim.swa_utils.AveragedModel(net)" if "swa" in used else "",
        f"    opt = {optimizer.format(w=weights)}",
        "    opt2 = optim.SGD(weights[:1], lr=0.01)" if "opt2" in used else "",
        f"    sched = {draw.choice(SCHEDULES)}" if scheduled else "",
        "    def step(x, y):",
        "        nonlocal count" if "count += 1" in used else "",
        "        extra = []",
        *(f"        {line}" for each in body for line in each.replace("\n    ", "\n").splitlines() if line),
        f"        return {returned}, *extra",
        "    return step, net, dict(averages=averages, count=count, history=history)",
    ]
    return "\n".join(line for line in lines if line.strip())


def drawn(size: int, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Random inputs of a step."""
    return torch.randn(size, 4, dtype=kind), torch.randn(size, 4, dtype=kind)


def leaves(found: Any) -> list[Any]:
    """The tensors and numbers of a result."""
    return [each for each in pytree.tree_leaves(found) if each is not None]


def differ(mine: Any, own: Any, near: float, moved: float = 0.0) -> bool:
    """Whether two tensors or numbers are not the same, but for rounding, which in eager itself moved them so far."""
    mine, own = (torch.as_tensor(each).detach().double() for each in (mine, own))
    return mine.shape != own.shape or not torch.allclose(mine, own, near, near + 20 * moved, equal_nan=True)


def far_apart(pairs: Sequence[tuple[Any, Any]], near: float, moved: Sequence[float]) -> list[int]:
    """Which pairs differ."""
    return [i for i, (pair, far) in enumerate(zip(pairs, moved, strict=True)) if differ(*pair, near, far)]


def contents(net: torch.nn.Module, kept: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The weights and buffers of a step, by the names that state has for them."""
    held = {f"net.{name}": each for name, each in (*net.named_parameters(), *net.named_buffers())}
    held |= {f"averages.{i}": each for i, each in enumerate(kept["averages"])}
    return {**held, "history": kept["history"]}


def faults(seed: int, tally: Callable[[str], Any] = str) -> Iterator[str]:
    """What is wrong with the program of a step, over several calls."""
    make = function_of(text_of(seed), f"training_steps_{seed}.py", "make")
    draw = random.Random(seed)
    kind = torch.float32 if "opt = optim.SGD" in text_of(seed) and draw.random() < 0.5 else torch.float64
    made = []
    for _ in range(2):
        torch.manual_seed(seed)
        made.append(make(torch, kind))
    (mine, net, kept), (eager, eager_net, eager_kept) = made
    torch.manual_seed(seed + 1)
    taken: Given = []
    try:
        for _ in range(draw.choice((0, 0, 1, 2))):
            given = drawn(4, kind)
            mine(*given)
            eager(*given)
            taken.append(given)
        trial = make(torch, kind)[0]
        for size in (4, 3):
            trial(*drawn(size, kind))
    except Exception as error:
        tally(f"eager raises: {str(error)[:60]}")
        return
    before = {name: each.detach().clone() for name, each in contents(net, kept).items()}
    gradients = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    dynamic = ({0: "n"}, {0: "n"}) if draw.random() < 0.7 else None
    try:
        program = irkit.to_onnx(
            mine,
            (torch.randn(4, 4, dtype=kind), torch.randn(4, 4, dtype=kind)),
            dynamic_shapes=dynamic,
            capture="direct",
        )
    except IrkitError as error:
        tally(f"refused: {error.what[:110]}")
        return
    tally("captured")
    after = contents(net, kept)
    yield from (f"{name} is not as before" for name in before if not torch.equal(before[name], after[name]))
    for (name, p), was in zip(net.named_parameters(), gradients, strict=True):
        if (p.grad is None) != (was is None) or (was is not None and not torch.equal(p.grad, was)):
            yield f"the gradient of {name} is not as before"
    rounded = partial(rounding, lambda: remade(make, seed, kind))
    yield from steps_compared(program, (eager, eager_net, eager_kept), taken, dynamic, tally, rounded)


def remade(make: Callable[..., Any], seed: int, kind: torch.dtype) -> Any:
    """The step of a seed as it is first."""
    torch.manual_seed(seed)
    return make(torch, kind)


def rounding(remake: Callable[[], Any], taken: Given, results: list[Any], held: dict[str, Any]) -> list[float]:
    """How far results and contents of a step move in eager itself where inputs do in their last digit.

    An optimizer that divides by the size of a gradient makes any number of one that is nothing but rounding."""
    moved = [0.0] * (len(results) + len(held))
    own = torch.random.get_rng_state()
    for turn in range(TURNS):
        step, net, kept = remake()
        torch.manual_seed(turn)
        found: Any = None
        for given in taken:
            ends = [torch.nextafter(each, torch.randn_like(each) * torch.inf) for each in given]
            found = step(*ends)
        others = [*leaves(found), *(contents(net, kept)[name] for name in held)]
        for i, (one, other) in enumerate(zip((*results, *held.values()), others, strict=True)):
            far = (torch.as_tensor(one).detach().double() - torch.as_tensor(other).detach().double()).abs()
            moved[i] = max([moved[i], *far.flatten().tolist()])
    torch.random.set_rng_state(own)
    return moved


def steps_compared(
    program: Any,
    own: tuple[Any, Any, Any],
    taken: Given,
    dynamic: Any,
    tally: Callable[[str], Any],
    rounded: Callable[..., list[float]],
) -> Iterator[str]:
    """What differs from eager in some steps."""
    eager, net, kept = own
    state: Any = None
    near = 2e-3 if net[0].weight.dtype is torch.float32 else 1e-4
    for number, size in enumerate(SIZES):
        given = drawn(size if dynamic else 4, net[0].weight.dtype)
        try:
            found, state = program.run(given, {}, state)
        except irkit.ContractError:
            tally("refused by the contract")
            continue
        except Exception as error:
            try:
                eager(*given)
            except Exception:
                tally("both refuse")
                return
            yield f"call {number} of {size}: refuses what eager takes: {error}"
            return
        try:
            expected = eager(*given)
        except Exception as error:
            yield f"call {number} of {size}: answers where eager says {error}"
            return
        taken = [*taken, given]
        got, wanted = leaves(found), leaves(expected)
        if len(got) != len(wanted):
            yield f"call {number}: {len(got)} results, where eager has {len(wanted)}"
            return
        held = {name: each for name, each in contents(net, kept).items() if name in state}
        pairs = [*zip(got, wanted, strict=True), *((state[name], each) for name, each in held.items())]
        wrong = far_apart(pairs, near, [0.0] * len(pairs))
        if wrong and any(NOT_KEPT in note for note in program.report.notes):
            tally("another number is set, and a note says so")
            return
        if wrong and not far_apart(pairs, near, rounded(taken, wanted, held)):
            tally("rounding makes any number of it in eager, too")
            return
        if wrong:
            names = [*range(len(got)), *held]
            yield f"call {number} of {size}: {[names[i] for i in wrong]}: {pairs[wrong[0]]}\n{program.report.notes}"
            return
    tally("all calls agree")


def main(arguments: Sequence[str]) -> int:
    """0 where nothing was found."""
    seeds = seeds_asked(arguments)
    warnings.simplefilter("ignore")
    bad, seen = 0, Counter[str]()
    for seed in seeds:
        try:
            found = [*faults(seed, lambda what: seen.update([what]))]
        except Exception as error:  # said, with the step
            found = [f"{type(error).__name__}: {error}"]
        if found:
            bad += 1
            print(seed, text_of(seed).removeprefix(HEAD), *found, sep="\n", flush=True)
    print(f"{len(seeds)} steps, {bad} with faults", *(f"{n} {what}" for what, n in seen.most_common()), sep="\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
