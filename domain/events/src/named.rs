//! Enums whose names are stored in columns and JSON and therefore frozen.

/// The name does not belong to any value of the enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {expected}")]
pub struct UnknownName {
    /// The valid names, separated by spaces.
    pub expected: &'static str,
}

/// Defines the names of an enum in columns and JSON: `as_str`, `Display`, `FromStr` with the error
/// [`UnknownName`](crate::UnknownName), and `ALL`.
#[macro_export]
macro_rules! named {
    ($enum:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $enum {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];

            /// The name in columns and JSON.
            pub const fn as_str(self) -> &'static str {
                match self { $($enum::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = $crate::UnknownName;
            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                match name {
                    $($name => Ok($enum::$variant),)+
                    _ => Err($crate::UnknownName { expected: concat!($($name, " "),+).trim_ascii_end() }),
                }
            }
        }
    };
}
