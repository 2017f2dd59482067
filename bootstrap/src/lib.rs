//! The composition root and the binary handover: configuration, wiring, telemetry, command line.
