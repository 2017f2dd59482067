//! Time and chance from the operating system, behind the ports of the application.
