//! Rules, and how one test for each is stamped.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::PATIENCE;

/// No rule runs longer.
const LONGEST_RULE: Duration = Duration::from_secs(300);

/// What a rule returns.
pub type RuleFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// What brings a rig.
pub type RigFuture<R> = Pin<Box<dyn Future<Output = Box<R>>>>;

/// A rule for the adapters of one port; `R` is the port's rig, for instance `dyn StoreRig`.
pub struct Rule<R: ?Sized> {
    /// The file it is in.
    pub file: &'static str,
    /// The sentence it states.
    pub name: &'static str,
    /// Runs it on a fresh rig; panics if it is broken.
    pub run: for<'a> fn(&'a R) -> RuleFuture<'a>,
}

/// Runs the rule of this file and name on a fresh rig, in a runtime of its own.
///
/// Everything that depends on the rule or the adapter is behind a pointer: a stamped test compiles to one call.
pub fn run_rule<R: ?Sized + 'static>(rig: fn() -> RigFuture<R>, rules: &[Rule<R>], file: &str, name: &str) {
    let rule = rules.iter().find(|rule| rule.file == file && rule.name == name).expect("a rule of the list");
    run(async {
        let rig = rig().await;
        (rule.run)(rig.as_ref()).await;
    });
}

/// Runs a test to its end, in a runtime of its own.
pub fn run(test: impl Future<Output = ()>) {
    run_boxed(Box::pin(test));
}

fn run_boxed(test: Pin<Box<dyn Future<Output = ()> + '_>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LONGEST_RULE, test).await.expect("the rule ends") });
    runtime.shutdown_timeout(PATIENCE);
}

/// Lists the rules of a port, each under the file it is in: makes `RULES` of them, and the macro `$list` from which
/// [`contract!`](crate::contract) stamps its tests. For the ports of an application too.
#[macro_export]
macro_rules! rules {
    ($list:ident: $rig:ident; $($file:ident: [$($rule:ident),* $(,)?])*) => {
        /// Every rule of this port's contract.
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

/// Stamps one test per rule of a port's contract: `contract!(store, sqlite, sqlite_rig)` makes the tests
/// `sqlite::units::a_unit_reads_its_own_writes` and so on. The port is `store` or `broker`, and `sqlite_rig` an
/// `async fn` or closure that returns a fresh rig.
#[macro_export]
macro_rules! contract {
    (store, $name:ident, $fresh:expr) => {
        $crate::stamp!($name, dyn $crate::store::StoreRig, $fresh, $crate::store::RULES, $crate::store_rules);
    };
    (broker, $name:ident, $fresh:expr) => {
        $crate::stamp!(
            $name,
            dyn $crate::broker::BrokerRig,
            $fresh,
            $crate::broker::RULES,
            $crate::broker_rules
        );
    };
}

/// Stamps one test per rule of a list that [`rules!`](crate::rules) made, for the `contract!` of another crate: the name of
/// the tests, the rig's type, what returns a fresh rig, the list, and the macro with its names.
#[macro_export]
macro_rules! stamp {
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
