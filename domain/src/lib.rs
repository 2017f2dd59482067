//! The rules of a second-hand order: pure values and decisions, no async, no I/O, no clock, no chance.
