//! A RabbitMQ cluster of three nodes.

use std::sync::Arc;

use super::super::PASSWORD;
use super::super::server_process::ServerProcess;
use super::node::{Node, start_mapper};
use super::setup::USER;
use crate::process::BoxError;

/// Number of nodes. The cluster tolerates the loss of one.
const NODES: usize = 3;

/// A private cluster with the vhost `/`. The cluster ends when this value is dropped.
#[derive(Debug)]
pub struct RabbitCluster {
    nodes: Vec<Node>,
    /// The port mapper is declared last, so that it ends after the nodes.
    _mapper: ServerProcess,
}

impl RabbitCluster {
    /// Creates and starts the nodes, and waits until each node sees the others.
    pub async fn start() -> Result<Arc<RabbitCluster>, BoxError> {
        let (mapper, port) = start_mapper()?;
        let names: Vec<String> = (1..=NODES).map(|n| format!("handover{n}@localhost")).collect();
        let nodes = names.iter().enumerate().map(|(n, name)| {
            let peers = if n == 0 { [].as_slice() } else { names.as_slice() };
            Node::new(name, peers, port, false)
        });
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let cluster = RabbitCluster { nodes, _mapper: mapper };
        // The other nodes must not join while the first still changes its tables: they would miss a change.
        let (first, others) = cluster.nodes.split_at(1);
        for together in [first, others] {
            for node in together {
                node.launch()?;
            }
            for node in together {
                node.wait_until_ready().await?;
            }
        }
        for node in &cluster.nodes {
            node.wait_for("length(rabbit_nodes:all_running()).", &NODES.to_string()).await?;
        }
        Ok(Arc::new(cluster))
    }

    /// URL with the addresses of all nodes.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.ports().amqp)).collect();
        format!("amqp://{USER}:{PASSWORD}@{}/%2f", hosts.join(","))
    }

    /// Names of the nodes. Other methods take the index of a node in this list.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(Node::name).collect()
    }

    /// Sends SIGKILL to a node. Its data is kept for [`restart`](RabbitCluster::restart).
    pub fn kill(&self, node: usize) -> Result<(), BoxError> {
        self.nodes[node].kill()
    }

    /// Starts a node again with its data, and waits until it responds.
    pub async fn restart(&self, node: usize) -> Result<(), BoxError> {
        self.nodes[node].launch()?;
        self.nodes[node].wait_until_ready().await
    }

    /// Waits until every queue has a replica on every node. All queues MUST be quorum queues, and there MUST be at
    /// least one.
    pub async fn wait_until_replicated(&self) -> Result<(), BoxError> {
        let online = "lists:usort([length(proplists:get_value(online, rabbit_quorum_queue:info(Q, [online]))) \
                      || Q <- rabbit_amqqueue:list(<<\"/\">>)]) =:= [3].";
        for node in &self.nodes {
            node.wait_for(online, "true").await?;
        }
        Ok(())
    }

    /// The leader of a quorum queue as seen by node `via`.
    pub async fn leader(&self, queue: &str, via: usize) -> Result<usize, BoxError> {
        let code =
            format!("{}, proplists:get_value(leader, rabbit_quorum_queue:info(Q, [leader])).", found(queue));
        self.node_named_in(&self.nodes[via].eval(&code).await?)
    }

    /// Makes the given node the leader of a quorum queue.
    pub async fn make_leader(&self, queue: &str, node: usize) -> Result<(), BoxError> {
        let code = format!("{}, rabbit_quorum_queue:transfer_leadership(Q, node()).", found(queue));
        self.nodes[node].eval(&code).await.map(drop)
    }

    /// The node that serves the connection with this name, as seen by node `via`.
    pub async fn node_of_connection(&self, name: &str, via: usize) -> Result<usize, BoxError> {
        let code = format!(
            "[node(P) || [{{pid, P}}, {{client_properties, C}}] <- \
             rabbit_networking:connection_info_all([pid, client_properties]), \
             lists:member({{<<\"connection_name\">>, longstr, <<\"{name}\">>}}, C)]."
        );
        self.node_named_in(&self.nodes[via].eval(&code).await?)
    }

    fn node_named_in(&self, response: &str) -> Result<usize, BoxError> {
        let named = self.nodes.iter().position(|node| response.contains(node.name()));
        named.ok_or_else(|| format!("no node is named in {response}").into())
    }
}

/// Erlang that looks up a queue and binds it to `Q`.
fn found(queue: &str) -> String {
    format!("{{ok, Q}} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{queue}\">>))")
}
