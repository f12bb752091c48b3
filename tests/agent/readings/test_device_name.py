from __future__ import annotations

from fleetridge_agent.readings.reading import without_profile


def test_a_slice_is_told_from_its_card() -> None:
    """The profile goes to a field of its own, so that both have the device's name."""
    assert without_profile("NVIDIA A100-SXM4-40GB MIG 1g.5gb") == ("NVIDIA A100-SXM4-40GB", "1g.5gb")


def test_a_profile_with_its_extras_is_kept_whole() -> None:
    """Media engines are part of the profile."""
    assert without_profile("NVIDIA H100 NVL MIG 1g.12gb+me") == ("NVIDIA H100 NVL", "1g.12gb+me")


def test_a_whole_card_keeps_its_name() -> None:
    """No name and an empty one stay what they are."""
    assert without_profile("NVIDIA H200") == ("NVIDIA H200", None)
    assert without_profile("") == ("", None)
    assert without_profile(None) == (None, None)
