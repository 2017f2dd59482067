//! The HTTP edge: routes, tokens, the answer envelope.
