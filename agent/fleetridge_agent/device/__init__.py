"""Devices: the interface that a sweep uses, and its implementations for CUDA, ROCm and the CPU."""
