//! Enums whose names are frozen in columns and JSON.

/// A name that is none of an enum's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {expected}")]
pub struct UnknownName {
    /// The names that exist.
    pub expected: &'static str,
}

/// Gives an enum its names in columns and JSON: `as_str`, `Display`, `FromStr` with [`UnknownName`](crate::UnknownName) as
/// its error, and `ALL`.
#[macro_export]
macro_rules! named {
    ($enum:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $enum {
            /// Every value.
            pub const ALL: &'static [$enum] = &[$($enum::$variant),+];

            /// Its name in columns and JSON.
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
