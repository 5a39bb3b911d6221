"""What torch is set to by functions of its own: the default element type and device, autocast, determinism, threads,
kernels. A model that sets one of them leaves it so, in eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch

from lowering.records.torch_internals import DEFAULT_DEVICE, C


@attrs.frozen(eq=False)
class TorchSettings:
    """All of them as they stand: `held` has one for each of SETTINGS."""

    held: Sequence[Any]

    @classmethod
    def now(cls) -> TorchSettings:
        """As they stand now."""
        return cls([read() for read, _ in SETTINGS.values()])

    def put_back(self) -> list[str]:
        """Has all stand so again; the names of those that did not."""
        changed: list[str] = []
        for held, (name, (read, write)) in zip(self.held, SETTINGS.items(), strict=True):
            if read() != held:
                write(held)
                changed.append(name)
        return changed


def autocast_of(device: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """(reads, writes) whether autocast is on for a device, and to which type it casts."""

    def write(held: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, held[0])
        torch.set_autocast_dtype(device, held[1])

    return lambda: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)), write


def autocast_blocks() -> int:
    """In how many blocks of autocast this is."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def set_autocast_blocks(held: int) -> None:
    """Leaves blocks of autocast, or enters some, until it is in so many."""
    inside = autocast_blocks()
    while inside > held:
        inside = torch.autocast_decrement_nesting()
    while inside < held:
        inside = torch.autocast_increment_nesting()
    if not held:
        torch.clear_autocast_cache()


def default_device() -> torch.device | None:
    """The device that tensors are made on, where one was set."""
    block = DEFAULT_DEVICE.__dict__.get("device_context")  # getattr takes ten times as long where there is none
    return None if block is None else block.device


SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "the default element type": (torch.get_default_dtype, torch.set_default_dtype),
    "the default device": (default_device, torch.set_default_device),
    "autocast of cpu": autocast_of("cpu"),
    "autocast of cuda": autocast_of("cuda"),
    "whether autocast remembers": (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    "a block of autocast that does not end": (autocast_blocks, set_autocast_blocks),
    "deterministic algorithms": (torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    "what new memory is filled with": (
        C._get_deterministic_fill_uninitialized_memory, C._set_deterministic_fill_uninitialized_memory,
    ),
    "the number of threads": (torch.get_num_threads, torch.set_num_threads),
    "the precision of products of matrices": (
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
    ),
    "kernels of cudnn": (
        lambda: (C._get_cudnn_benchmark(), C._get_cudnn_deterministic(), C._get_cudnn_enabled()),
        lambda held: (
            C._set_cudnn_benchmark(held[0]), C._set_cudnn_deterministic(held[1]), C._set_cudnn_enabled(held[2]),
        ),
    ),
    "kernels of oneDNN": (C._get_mkldnn_enabled, C._set_mkldnn_enabled),
    "kernels of attention": (
        lambda: (C._get_flash_sdp_enabled(), C._get_mem_efficient_sdp_enabled(), C._get_math_sdp_enabled()),
        lambda held: (
            C._set_sdp_use_flash(held[0]), C._set_sdp_use_mem_efficient(held[1]), C._set_sdp_use_math(held[2]),
        ),
    ),
    "how anomalies of gradients are looked for": (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda held: C.set_anomaly_enabled(*held),
    ),
    "threads of gradients": (C._is_multithreading_enabled, C._set_multithreading_enabled),
    "whether warnings are repeated": (torch.is_warn_always_enabled, torch.set_warn_always),
}  # fmt: skip
"""By what it is called: what reads and what writes it. Whether gradients are recorded is looked at by itself: a capture
sets it."""

FLAGS: tuple[Callable[[], Any], ...] = (
    torch.get_default_dtype, C._get_deterministic_algorithms, C._get_deterministic_algorithms_warn_only,
    C._get_deterministic_fill_uninitialized_memory, torch.get_num_threads, C._get_float32_matmul_precision,
    C._get_cudnn_benchmark, C._get_cudnn_deterministic, C._get_cudnn_enabled, C._get_mkldnn_enabled,
    C._get_flash_sdp_enabled, C._get_mem_efficient_sdp_enabled, C._get_math_sdp_enabled, torch.is_anomaly_enabled,
    torch.is_anomaly_check_nan_enabled, C._is_multithreading_enabled, torch.is_warn_always_enabled,
)  # fmt: skip


def settings_key() -> tuple[Any, ...]:
    """Equal while all of them stand the same, where no block of autocast runs that is other: read for each call of a
    module, in a fifth of the time."""
    if C._is_any_autocast_enabled():
        return tuple(TorchSettings.now().held)
    types = torch.get_autocast_dtype("cpu"), torch.get_autocast_dtype("cuda")
    return (default_device(), *types, *[read() for read in FLAGS])


RECORDS = "whether gradients are recorded"
"""That setting, of which a capture tells where the model's own code leaves it otherwise than the capture set it."""
