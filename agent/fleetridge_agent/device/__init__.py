"""The one door to the silicon: what a sweep needs of a device, and the devices that stand behind it."""
