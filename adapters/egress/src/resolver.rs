//! Host names.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent lookups: half of the threads that tokio has for calls that block.
const MAX_LOOKUPS: usize = 256;
/// Maximum number of concurrent lookups of one host.
const MAX_LOOKUPS_OF_HOST: usize = 4;
/// Time for which a lookup waits until another one ends.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// Future of a resolved name.
pub type Resolved<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves host names. An error means that the name has no address.
pub trait Resolver: Send + Sync + 'static {
    /// The addresses of a host name, in the order in which they are tried.
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a>;
}

/// A function that resolves a name and blocks its thread meanwhile.
pub type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The resolver of the operating system.
///
/// A lookup occupies a thread until the name servers answer, also after its request ended. Their number is limited, in total
/// and for each host, so that hosts whose name servers do not answer take neither all threads of the process nor the lookups
/// of other hosts.
#[derive(Clone)]
pub struct SystemResolver {
    lookup: Arc<Lookup>,
    permits: Arc<Semaphore>,
    of_hosts: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
}

impl SystemResolver {
    /// A resolver with this function and this limit of concurrent lookups.
    pub fn new(lookup: Arc<Lookup>, max_lookups: usize) -> SystemResolver {
        SystemResolver { lookup, permits: Arc::new(Semaphore::new(max_lookups)), of_hosts: Arc::default() }
    }

    /// Waits until a lookup of this host may begin.
    async fn permits(&self, host: &str) -> Result<[OwnedSemaphorePermit; 2], AcquireError> {
        let of_host = {
            let mut of_hosts = self.of_hosts.lock().unwrap_or_else(PoisonError::into_inner);
            // A permit holds its semaphore.
            of_hosts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            let new = || Arc::new(Semaphore::new(MAX_LOOKUPS_OF_HOST));
            Arc::clone(of_hosts.entry(host.to_owned()).or_insert_with(new))
        };
        let of_host = of_host.acquire_owned().await?;
        Ok([of_host, Arc::clone(&self.permits).acquire_owned().await?])
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        SystemResolver::new(Arc::new(system_lookup), MAX_LOOKUPS)
    }
}

fn system_lookup(host: &str) -> io::Result<Vec<IpAddr>> {
    Ok((host, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> Resolved<'a> {
        Box::pin(async move {
            let Ok(Ok(permits)) = tokio::time::timeout(MAX_WAIT, self.permits(host)).await else {
                return Err(io::Error::other("too many lookups wait for name servers that do not answer"));
            };
            let (lookup, host) = (Arc::clone(&self.lookup), host.to_owned());
            tokio::task::spawn_blocking(move || {
                let result = lookup(&host);
                drop(permits);
                result
            })
            .await?
        })
    }
}

impl fmt::Debug for SystemResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemResolver").finish_non_exhaustive()
    }
}
