from __future__ import annotations

from types import SimpleNamespace

from fleetridge.report import Environment, Evidence
from fleetridge_agent.readings.nvml import NvmlGpu, open_nvml
from fleetridge_agent.readings.nvml_telemetry import (
    NvmlTelemetry,
    environment_readings,
    health_readings,
    processes,
    throttle_reasons,
)
from fleetridge_agent.readings.optional_reading import model_of
from support.stub_nvml import StubCard, StubNvml, StubNvmlError


def _gpu(card: StubCard | None = None, **readings: object) -> NvmlGpu:
    card = card or StubCard("GPU-1", "0000:01:00.0", "NVIDIA H200", readings)
    (gpu,) = open_nvml(StubNvml(card)).gpus()
    return gpu


def test_a_sample_holds_what_the_driver_says_in_the_units_of_the_report() -> None:
    """Milliwatts become watts, clocks come by their kind."""
    sample = NvmlTelemetry(
        _gpu(
            ClockInfo=lambda kind: {1: 1980, 2: 3201}[kind],
            PowerUsage=412_500,
            Temperature=52,
            CurrPcieLinkGeneration=5,
            CurrPcieLinkWidth=16,
        )
    ).sample()

    assert (sample.sm_clock_mhz, sample.memory_clock_mhz, sample.power_w) == (1980.0, 3201.0, 412.5)
    assert (sample.temperature_c, sample.pcie_generation, sample.pcie_width) == (52.0, 5, 16)


def test_power_is_that_of_the_moment_where_the_driver_has_it() -> None:
    """The older reading is an average over a second."""
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H200", {"PowerUsage": 300_000}, fields={82: 61.0, 186: 691_000.0})

    sample = NvmlTelemetry(_gpu(card)).sample()

    assert (sample.power_w, sample.memory_temperature_c) == (691.0, 61.0)


def test_a_reading_that_is_not_available_leaves_the_others() -> None:
    """Power "[N/A]" is null, the temperature of 41 gets through."""
    sample = NvmlTelemetry(_gpu(PowerUsage="[N/A]", Temperature=41, ClockInfo=StubNvmlError())).sample()

    assert (sample.power_w, sample.temperature_c, sample.sm_clock_mhz) == (None, 41.0, None)


def test_throttle_reasons_are_read_bit_by_bit() -> None:
    """Several at once are all named; being idle is none."""
    assert throttle_reasons(0x4 | 0x20 | 0x1) == {"sw_power_cap", "sw_thermal_slowdown"}
    assert throttle_reasons(0x1) == frozenset()
    assert throttle_reasons(None) is None


def test_throttle_reasons_are_read_from_old_drivers_too() -> None:
    """Which know the function by its first name only."""
    assert NvmlTelemetry(_gpu(CurrentClocksThrottleReasons=0x8)).sample().throttle_reasons == {"hw_slowdown"}
    assert NvmlTelemetry(_gpu(CurrentClocksEventReasons=0x4)).sample().throttle_reasons == {"sw_power_cap"}


def test_throttle_counters_are_in_milliseconds() -> None:
    """Nanoseconds since the driver was loaded; counters that a card does not have are left out."""
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H200", fields={74: 66e9, 269: 5e5})

    assert NvmlTelemetry(_gpu(card)).throttle_ms() == {"sw_power_cap": 66_000.0, "sw_thermal_slowdown": 0.5}


def test_a_slice_takes_clock_and_power_from_its_card() -> None:
    """Slices have none of their own."""
    piece = StubCard("MIG-1", "", "NVIDIA H100 NVL MIG 1g.12gb", {"PowerUsage": StubNvmlError()})
    card = StubCard("GPU-1", "0000:01:00.0", "NVIDIA H100 NVL", {"PowerUsage": 350_000}, slices=[piece])

    assert NvmlTelemetry(_gpu(card)).sample().power_w == 350.0


def test_settings_and_limits_come_in_the_words_of_the_report() -> None:
    """Every name is one of the contract's, and what the driver lacks is null."""
    readings = environment_readings(
        _gpu(
            VbiosVersion="96.00.BC.00.01",
            EccMode=[1, 1],
            PersistenceMode=0,
            VirtualizationMode=1,
            EnforcedPowerLimit=650_000,
            PowerManagementDefaultLimit=700_000,
            PowerManagementLimitConstraints=[200_000, 700_000],
            MaxClockInfo=lambda kind: {1: 1980, 2: 3201}[kind],
        )
    )
    environment = model_of(Environment, readings)

    assert readings.keys() <= Environment.model_fields.keys()
    assert (environment.vbios, environment.ecc_enabled, environment.persistence_mode) == ("96.00.BC.00.01", True, False)
    assert (environment.power_limit_w, environment.power_limit_default_w, environment.power_limit_max_w) == (
        650,
        700,
        700,
    )
    assert (environment.sm_clock_max_mhz, environment.virtualization) == (1980, "passthrough")
    assert environment.application_sm_clock_mhz is None


def test_memory_repairs_that_wait_for_a_reset_are_told_from_those_that_were_made() -> None:
    """A count alone is history; pending asks for action."""
    readings = health_readings(_gpu(RemappedRows=(2, 4, 0, 0), TotalEccErrors=3))
    evidence = model_of(Evidence, readings)

    assert (evidence.remapped_rows_correctable, evidence.remapped_rows_uncorrectable) == (2, 4)
    assert (evidence.remapped_rows_pending, evidence.ecc_uncorrected) == (False, 3)
    assert evidence.remapped_rows_failure is False


def test_a_memory_repair_that_failed_is_reported() -> None:
    """The gpu cannot be repaired by a reset."""
    assert health_readings(_gpu(RemappedRows=(2, 4, 0, 1)))["remapped_rows_failure"] is True


def test_health_that_a_gpu_cannot_tell_is_null() -> None:
    """Older gpus have no row remapping."""
    assert set(health_readings(_gpu()).values()) == {None}


def test_processes_of_every_kind_are_listed_with_their_memory() -> None:
    """Computing, drawing and those behind a multi-process server; memory that is not told is unknown."""
    listed = processes(
        _gpu(
            ComputeRunningProcesses=[SimpleNamespace(pid=10, usedGpuMemory=100)],
            GraphicsRunningProcesses=[SimpleNamespace(pid=11, usedGpuMemory=None)],
        )
    )

    assert listed == {10: 100, 11: None}


def test_no_process_list_is_not_an_empty_one() -> None:
    """Where it cannot be read, nobody can say that the gpu is free."""
    assert processes(_gpu()) is None
    assert processes(_gpu(ComputeRunningProcesses=[])) == {}
