from __future__ import annotations

import pytest
import torch

from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.device.interface import DeviceFaultError, OutOfDeviceMemoryError, UnsupportedError
from fleetridge_agent.device.kernels import device_errors, gemm_operands, stream_launches
from fleetridge_agent.errors import SweepError

_CPU = torch.device("cpu")


def _gemm(dtype: str, m: int = 96, k: int = 128, n: int = 64) -> Gemm:
    return Gemm(m, k, n, GemmVariant(dtype))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "float8_e4m3fn"])
def test_a_launch_multiplies_the_operands(dtype: str) -> None:
    """Rows times the transposed weights, into the output dtype of the product."""
    gemm = _gemm(dtype)
    operands = gemm_operands(gemm, Fill(), _CPU)

    product = operands.launch()

    assert product.shape == (96, 64)
    assert str(product.dtype) == f"torch.{gemm.variant.output}"
    expected = operands.a.double() @ operands.b.double().t()
    torch.testing.assert_close(product.double(), expected, rtol=0.02, atol=0.2)


def test_operands_are_normal_random_numbers() -> None:
    """Centred on zero with a deviation of one, which draws the power that real work draws."""
    operands = gemm_operands(_gemm("float32", 512, 512, 512), Fill(), _CPU)

    for values in (operands.a, operands.b):
        assert float(values.mean()) == pytest.approx(0.0, abs=0.02)
        assert float(values.std()) == pytest.approx(1.0, rel=0.02)
    assert not torch.equal(operands.a, operands.b)


def test_int8_operands_use_the_range_of_the_type() -> None:
    """Normal numbers too, rounded, and symmetric to zero."""
    values = gemm_operands(_gemm("int8", 512, 512, 512), Fill(), _CPU).a.float()

    assert float(values.std()) == pytest.approx(32.0, rel=0.02)
    assert -127 <= float(values.min()) < -100
    assert 100 < float(values.max()) <= 127


def test_float8_operands_are_normal_numbers_in_float8() -> None:
    """Drawn wider and rounded, as float8 cannot be drawn."""
    values = gemm_operands(_gemm("float8_e4m3fn", 512, 512, 512), Fill(), _CPU).a

    assert values.dtype == torch.float8_e4m3fn
    assert float(values.float().std()) == pytest.approx(1.0, rel=0.02)


def test_a_seed_decides_the_operands() -> None:
    """The same twice, and others for another seed."""
    first, again, other = (gemm_operands(_gemm("float32"), Fill(seed=seed), _CPU).a for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_operands_of_zeros_are_zeros() -> None:
    """For whoever wants to know what power does to the rate."""
    operands = gemm_operands(_gemm("bfloat16"), Fill("zeros"), _CPU)

    assert not operands.a.any()
    assert not operands.b.any()


def test_poisoned_output_holds_no_earlier_product() -> None:
    """A kernel that writes nothing is then seen to have written nothing."""
    operands = gemm_operands(_gemm("float32"), Fill(), _CPU)
    product = operands.launch()

    operands.poison()

    assert bool(product.isnan().all())


def test_stream_kernels_compute_what_their_names_say() -> None:
    """Copy, add and triad write the third buffer from the first two; read adds all of the first up."""
    launches = stream_launches(4096, Fill(), _CPU)
    copied = launches["copy"]().clone()  # type: ignore[attr-defined] # a tensor
    added = launches["add"]().clone()  # type: ignore[attr-defined] # a tensor
    tripled = launches["triad"]().clone()  # type: ignore[attr-defined] # a tensor

    torch.testing.assert_close(tripled, copied + 3.0 * (added - copied))
    torch.testing.assert_close(launches["read"](), copied.sum().reshape(1))
    assert copied.numel() * copied.element_size() == 4096


def test_stream_kernels_leave_their_sources_random() -> None:
    """Writing a constant does not make later reads read constants, which would draw less power."""
    launches = stream_launches(4096, Fill(), _CPU)
    before = float(launches["read"]())  # type: ignore[arg-type] # a tensor
    for kernel in ("write", "copy", "add", "triad"):
        launches[kernel]()

    assert float(launches["read"]()) == before  # type: ignore[arg-type] # a tensor


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
