//! The explanation of an error for the user, and the definition of errors with their explanations.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use crate::names::in_own_name;

/// Explanation of an error: what failed, why it failed, and what the user should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What failed.
    pub what: String,
    /// Why the program cannot continue.
    pub why: String,
    /// What the user should do.
    pub remedy: String,
}

impl Explanation {
    /// The explanation of `what`; commands in the texts get the name of this program.
    pub fn new(what: &impl fmt::Display, why: impl Into<String>, remedy: impl Into<String>) -> Explanation {
        let own = |text: String| in_own_name(&text);
        Explanation { what: own(what.to_string()), why: own(why.into()), remedy: own(remedy.into()) }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  why: {}\n  do:  {}", self.what, self.why, self.remedy)
    }
}

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A dependency is unavailable.
    Unavailable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// An error that ends the program, with its explanation. [`failures!`](crate::failures) defines such errors.
pub trait Explained: Error + Send + Sync + 'static {
    /// The exit code of the program.
    fn exit(&self) -> Exit;

    /// What failed, why the program cannot continue, and what the user should do.
    fn explanation(&self) -> Explanation;
}

/// Defines an enum of errors. Each variant is followed by its exit code and three texts: what failed, why, and what to
/// do. These are expressions in which the fields of the variant are in scope, by reference.
#[macro_export]
macro_rules! failures {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {$(
            $(#[$variant_meta:meta])*
            $variant:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty ),* $(,)? } => $exit:expr,
            what: $what:expr,
            why: $why:expr,
            do: $remedy:expr;
        )+}
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis enum $name {$(
            $(#[$variant_meta])*
            $variant { $( $(#[$field_meta])* $field: $type ),* },
        )+}

        impl ::std::fmt::Display for $name {
            #[allow(unused_variables, reason = "not every message contains every field")]
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let what = match self {
                    $( $name::$variant { $($field),* } => String::from($what), )+
                };
                f.write_str(&what)
            }
        }

        impl ::std::error::Error for $name {}

        impl $crate::Explained for $name {
            #[allow(unused_variables, reason = "most exit codes depend on no field")]
            fn exit(&self) -> $crate::Exit {
                match self {
                    $( $name::$variant { $($field),* } => $exit, )+
                }
            }

            #[allow(unused_variables, reason = "not every explanation contains every field")]
            fn explanation(&self) -> $crate::Explanation {
                match self {
                    $( $name::$variant { $($field),* } => $crate::Explanation::new(self, $why, $remedy), )+
                }
            }
        }
    };
}
