"""The data of a model's methods: checked, converted, cut into steps, and fed to the device."""
