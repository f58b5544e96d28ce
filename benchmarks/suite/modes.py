"""The modes in which a workload runs, and how time is sampled."""

STEPS_PER_READ = 10
QUIET = 0.2  # CPUs that others may use during a round before it counts as disturbed

# mode: (device, what is compiled, environment)
MODES = {
    "cpu-eager": ("cpu", None, {}),
    "cpu-eager-again": ("cpu", None, {}),
    "cpu-compile": ("cpu", "model", {}),
    "cpu-compile-step": ("cpu", "step", {}),
    "neuron": ("neuron", None, {"NEURON_ADAPTIVE_EAGER": "1"}),
    "neuron-plain": ("neuron", None, {"NEURON_ADAPTIVE_EAGER": "0"}),
    "neuron-compile": ("neuron", "model", {"NEURON_ADAPTIVE_EAGER": "1"}),
}
COMPILE_MODES = ("cpu-compile", "cpu-compile-step")
