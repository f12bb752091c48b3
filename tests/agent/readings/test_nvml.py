from __future__ import annotations

import pytest

from fleetridge_agent.readings.nvml import LostCard, Nvml, NvmlError, open_nvml
from fleetridge_agent.readings.nvml_telemetry import NvmlTelemetry
from support.stub_nvml import StubCard, StubNvml, StubNvmlError


def _card(number: int, **readings: object) -> StubCard:
    return StubCard(f"GPU-{number}", f"00000000:{number:02X}:00.0", "NVIDIA A100-SXM4-80GB", readings)


def _four_cards() -> Nvml:
    return open_nvml(StubNvml(*(_card(number, Temperature=40 + 10 * number) for number in range(4))))


@pytest.mark.parametrize(("uuid", "temperature_c"), [("GPU-2", 60.0), ("GPU-3", 70.0)])
def test_telemetry_is_that_of_the_measured_gpu_whatever_cuda_numbers_it(uuid: str, temperature_c: float) -> None:
    """With CUDA_VISIBLE_DEVICES=2,3 CUDA calls the third gpu number 0; its UUID is what joins the two."""
    gpu = _four_cards().find(uuid=uuid, pci_bus_id=None)

    assert gpu is not None
    assert NvmlTelemetry(gpu).sample().temperature_c == temperature_c


def test_without_a_known_uuid_the_address_joins() -> None:
    """Some drivers give CUDA and NVML different identities."""
    gpu = _four_cards().find(uuid="GPU-of-CUDA", pci_bus_id="0000:03:00.0")

    assert gpu is not None
    assert gpu.uuid == "GPU-3"


def test_in_a_mixed_node_each_gpu_keeps_its_own_name_and_index() -> None:
    """CUDA puts the fast A10 first, NVML the T4 on the first bus; the index is NVML's, by address."""
    nvml = open_nvml(
        StubNvml(StubCard("GPU-T4", "0000:01:00.0", "Tesla T4"), StubCard("GPU-A10", "0000:02:00.0", "NVIDIA A10"))
    )

    fast = nvml.find(uuid="GPU-A10", pci_bus_id="0000:02:00.0")

    assert fast is not None
    assert (fast.device, fast.index) == ("NVIDIA A10", 1)


def test_a_gpu_that_nvml_does_not_know_is_not_another_one() -> None:
    """Rather no telemetry than a neighbour's."""
    assert _four_cards().find(uuid="GPU-9", pci_bus_id="0000:09:00.0") is None
    assert _four_cards().find(uuid=None, pci_bus_id=None) is None


def test_a_name_that_is_not_utf8_is_replaced_and_the_rest_goes_on() -> None:
    """The name begins with a broken byte; identity and readings are there all the same."""
    error = UnicodeDecodeError("utf-8", b"\xf8VIDIA A10", 0, 1, "invalid start byte")
    nvml = open_nvml(StubNvml(StubCard("GPU-1", "0000:01:00.0", error, {"Temperature": 41})))

    (gpu,) = nvml.gpus()

    assert gpu.device == "\ufffdVIDIA A10"
    assert NvmlTelemetry(gpu).sample().temperature_c == 41.0


def test_slices_of_a_split_card_are_gpus_of_their_own() -> None:
    """With their own UUIDs and the index and address of the card; the card itself cannot be measured."""
    one = StubCard("MIG-1", "", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")
    two = StubCard("MIG-2", "", "NVIDIA A100-SXM4-40GB MIG 2g.10gb")
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA A100-SXM4-40GB", slices=[one, two])

    gpus = open_nvml(StubNvml(_card(0), card)).gpus()

    assert [(gpu.uuid, gpu.mig_profile, gpu.index, gpu.pci_bus_id) for gpu in gpus] == [
        ("GPU-0", None, 0, "0000:00:00.0"),
        ("MIG-1", "1g.5gb", 1, "0000:01:00.0"),
        ("MIG-2", "2g.10gb", 1, "0000:01:00.0"),
    ]


def test_a_card_that_does_not_answer_is_left_out() -> None:
    """The others are still there."""
    assert [gpu.uuid for gpu in open_nvml(StubNvml(_refusing(15, "GPU is lost"), _card(1))).gpus()] == ["GPU-1"]


def _refusing(code: int, text: str) -> StubCard:
    return StubCard("GPU-0", "0000:00:00.0", "NVIDIA H200", handle_error=StubNvmlError(code, text))


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        (15, "GPU is lost", "gpu_lost"),
        (16, "GPU requires restart", "gpu_reset_required"),
        (999, "Unknown Error", "nvml_unknown_error"),
        (11, "Interrupt Request (IRQ) Issue", "gpu_irq_issue"),
        (8, "Insufficient External Power", "gpu_insufficient_power"),
    ],
)
def test_a_card_that_gives_no_handle_is_lost_where_the_driver_says_so(code: int, text: str, reason: str) -> None:
    nvml = open_nvml(StubNvml(_card(0), _refusing(code, text), _card(2)))

    assert [card.index for card in nvml.cards()] == [0, 2]
    assert nvml.lost_cards() == (LostCard(1, reason, text),)


def test_a_card_that_this_user_may_not_see_is_hidden_and_not_lost() -> None:
    nvml = open_nvml(StubNvml(_card(0), _refusing(4, "Insufficient Permissions")))

    assert len(nvml.cards()) == 1
    assert nvml.lost_cards() == ()


@pytest.mark.parametrize("reading", ["MemoryInfo", "UUID"])
@pytest.mark.parametrize(("code", "reason"), [(15, "gpu_lost"), (16, "gpu_reset_required")])
def test_a_card_may_be_lost_though_it_gives_a_handle_and_says_what_it_still_can(
    reading: str, code: int, reason: str
) -> None:
    nvml = open_nvml(StubNvml(_card(3, **{reading: StubNvmlError(code, "as nvidia-smi prints it")})))
    (card,) = nvml.lost_cards()

    assert nvml.gpus() == ()
    assert (card.index, card.reason, card.pci_bus_id, card.device) == (
        0,
        reason,
        "0000:03:00.0",
        "NVIDIA A100-SXM4-80GB",
    )
    assert card.uuid == (None if reading == "UUID" else "GPU-3")


def test_one_reading_with_an_unknown_error_is_no_lost_card_and_all_are() -> None:
    """Drivers answer so where they do not know a reading of their own newest chip."""
    unknown = StubNvmlError(999, "Unknown Error")

    assert open_nvml(StubNvml(_card(0, MemoryInfo=unknown))).lost_cards() == ()
    (card,) = open_nvml(StubNvml(_card(0, MemoryInfo=unknown, UUID=unknown))).lost_cards()
    assert card.reason == "nvml_unknown_error"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (9, "driver_not_loaded"),
        (12, "no_driver"),
        (18, "driver_library_mismatch"),
        (999, "nvml_unknown_error"),
        (7, "nvml_error"),
    ],
)
def test_a_driver_that_does_not_answer_says_why_and_what_helps(code: int, reason: str) -> None:
    """A word for programs, a sentence for people."""
    with pytest.raises(NvmlError, match=";") as caught:
        open_nvml(StubNvml(init_error=StubNvmlError(code, "some text of the driver")))

    assert caught.value.reason == reason
