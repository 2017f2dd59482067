//! Rules, and macros that generate one test for each.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::TIMEOUT;

const RULE_TIMEOUT: Duration = Duration::from_secs(300);

/// Future returned by a rule.
pub type RuleFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Future that creates a rig.
pub type RigFuture<R> = Pin<Box<dyn Future<Output = Box<R>>>>;

/// A rule for the adapters of one port. `R` is the port's rig, for example `dyn StoreRig`.
pub struct Rule<R: ?Sized> {
    /// Module that contains the rule.
    pub file: &'static str,
    /// Name of the rule.
    pub name: &'static str,
    /// Runs the rule on a fresh rig; panics if it is violated.
    pub run: for<'a> fn(&'a R) -> RuleFuture<'a>,
}

/// Runs a rule on a fresh rig, in its own runtime.
///
/// All code that depends on the rule or the adapter is behind a function pointer, so that a generated test
/// compiles to one call.
pub fn run_rule<R: ?Sized + 'static>(rig: fn() -> RigFuture<R>, rules: &[Rule<R>], file: &str, name: &str) {
    let rule =
        rules.iter().find(|rule| rule.file == file && rule.name == name).expect("RULES lacks this rule");
    run(async {
        let rig = rig().await;
        (rule.run)(rig.as_ref()).await;
    });
}

/// Runs a test in its own runtime; panics if the test takes longer than 300 s.
pub fn run(test: impl Future<Output = ()>) {
    run_boxed(Box::pin(test));
}

fn run_boxed(test: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(RULE_TIMEOUT, test).await.expect("the rule exceeded its time limit")
    });
    runtime.shutdown_timeout(TIMEOUT);
}

/// Lists the rules of a port by module: defines `RULES` and the macro `$list`, from which
/// [`contract!`](crate::contract) generates tests. An application can use it for its own ports.
#[macro_export]
macro_rules! rules {
    ($list:ident: $rig:ident; $($file:ident: [$($rule:ident),* $(,)?])*) => {
        /// All rules of this port's contract.
        pub static RULES: &[$crate::Rule<dyn $rig>] = &[$($($crate::Rule {
            file: stringify!($file),
            name: stringify!($rule),
            run: |rig| Box::pin($file::$rule(rig)),
        }),*),*];

        #[doc(hidden)]
        #[macro_export]
        macro_rules! $list {
            () => {
                $(mod $file {
                    $(#[test]
                    fn $rule() {
                        super::run_rule(stringify!($file), stringify!($rule));
                    })*
                })*
            };
        }
    };
}

/// Generates one test per rule of a list made by [`rules!`](crate::rules), for the `contract!` macro of another
/// crate. Arguments: name of the test module, type of the rig, constructor of a fresh rig, the list, and the macro
/// with the rule names.
#[macro_export]
macro_rules! contract_tests {
    ($name:ident, $rig:ty, $fresh:expr, $rules:path, $list:path) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn rig() -> $crate::RigFuture<$rig> {
                Box::pin(async {
                    let rig: Box<$rig> = Box::new($fresh().await);
                    rig
                })
            }

            fn run_rule(file: &str, name: &str) {
                $crate::run_rule(rig, $rules, file, name);
            }

            $list!();
        }
    };
}
