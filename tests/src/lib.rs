//! Shared contract suite, differential tests, the simulator, scenarios, faults and benches.
