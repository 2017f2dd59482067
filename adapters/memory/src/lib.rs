//! The store and the broker in memory: honest fakes for tests and the simulator.
