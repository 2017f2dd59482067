//! Flags and values that need no configuration.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// Format of a command's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns, with borders on a terminal
    #[default]
    Table,
    /// JSON, with the field names of the API
    Json,
}

/// Output flag of commands that print results.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

/// Parser for whole numbers within limits. Unlike the standard library's, its errors name the limits.
pub fn whole<T>(limits: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("write a whole number from {} to {}", limits.start(), limits.end()))
    }
}
