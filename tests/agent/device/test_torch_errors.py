from __future__ import annotations

import pytest

from fleetridge_agent.device.contract import DeviceFaultError, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.device.kernels import device_errors
from fleetridge_agent.errors import SweepError


def _translated(error: Exception) -> SweepError:
    with pytest.raises(SweepError) as caught, device_errors():
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 15 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000 bytes"),
        MemoryError(),
    ],
)
def test_too_little_memory_means_that_smaller_shapes_may_do(error: Exception) -> None:
    """Whether torch's allocator, CUDA, cuBLAS or the CPU ran out."""
    assert isinstance(_translated(error), OutOfDeviceMemoryError)


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Float8_e4m3fn'"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasLtMatmul`"),
        RuntimeError("torch._scaled_mm is only supported on CUDA devices with compute capability >= 9.0 or 8.9"),
        RuntimeError("self.size(0) needs to be greater than 16, but got 16"),
    ],
)
def test_a_refused_call_means_that_others_may_do(error: Exception) -> None:
    """The device never saw it."""
    assert isinstance(_translated(error), UnsupportedError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CUDA error: uncorrectable ECC error encountered", "ecc_uncorrectable"),
        ("CUDA error: an illegal memory access was encountered", "illegal_memory_access"),
        ("CUDA error: unspecified launch failure", "launch_failure"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable", "busy"),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`", "device_fault"),
        ("HIP error: something new", "device_fault"),
    ],
)
def test_a_device_error_ends_the_sweep_with_a_word_for_it(text: str, reason: str) -> None:
    """Whatever it was, the context is lost."""
    error = _translated(RuntimeError(f"{text}\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"))

    assert isinstance(error, DeviceFaultError)
    assert (error.reason, str(error)) == (reason, text)


def test_errors_that_are_ours_already_pass_unchanged() -> None:
    """A wrong product found under torch stays one."""
    ours = DeviceFaultError("wrong", reason="wrong_output")

    assert _translated(ours) is ours


def test_a_mistake_of_our_own_is_not_blamed_on_the_device() -> None:
    """It surfaces as what it is."""
    with pytest.raises(KeyError), device_errors():
        raise KeyError("kernel")
