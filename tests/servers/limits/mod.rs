//! Redis goes away, forgets, stands still and talks nonsense while requests are limited by it: they go on, and no process
//! lets more in than it would without Redis. Those whose idempotency keys are there are refused until it is back.

mod keys;
mod limiter;
mod load;
mod operators;
mod program;
