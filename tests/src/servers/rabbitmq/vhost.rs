//! A vhost for each test, and what an operator can do to it.

use std::sync::Arc;

use super::super::PASSWORD;
use super::RabbitServer;
use super::setup::USER;
use crate::process::Fault;

/// A vhost of one test.
#[derive(Debug)]
pub struct TestVhost {
    pub(super) name: String,
    pub(super) server: Arc<RabbitServer>,
}

impl TestVhost {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its URL, by the server's own port.
    pub fn url(&self) -> String {
        self.url_by(self.server.port())
    }

    /// Its URL, by the port of a proxy before the server.
    pub fn url_by(&self, port: u16) -> String {
        format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/{}", self.name)
    }

    /// Its URL with encryption, where the server offers that.
    pub fn encrypted_url(&self) -> Option<String> {
        let port = self.server.encrypted_port()?;
        Some(format!("amqps://{USER}:{PASSWORD}@localhost:{port}/{}", self.name))
    }

    /// The server it is in.
    pub fn server(&self) -> &Arc<RabbitServer> {
        &self.server
    }

    /// A resource of it, as Erlang names it.
    fn resource(&self, kind: &str, name: &str) -> String {
        format!("rabbit_misc:r(<<\"{}\">>, {kind}, <<\"{name}\">>)", self.name)
    }

    /// Deletes a queue with all that is in it, behind everybody's back.
    pub async fn delete_queue(&self, queue: &str) -> Result<(), Fault> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), rabbit_amqqueue:delete(Q, false, false, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Deletes an exchange with its bindings, behind everybody's back.
    pub async fn delete_exchange(&self, exchange: &str) -> Result<(), Fault> {
        let exchange = self.resource("exchange", exchange);
        self.server
            .eval(&format!("ok = rabbit_exchange:delete({exchange}, false, <<\"test\">>)."))
            .await
            .map(drop)
    }

    /// Takes a binding from a queue, behind everybody's back.
    pub async fn unbind(&self, exchange: &str, queue: &str, key: &str) -> Result<(), Fault> {
        let (exchange, queue) = (self.resource("exchange", exchange), self.resource("queue", queue));
        let code = format!(
            "[B] = [B || B <- rabbit_binding:list_for_source_and_destination({exchange}, {queue}), \
             element(3, B) =:= <<\"{key}\">>], ok = rabbit_binding:remove(B, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Removes every binding of an exchange with this routing key, in one call. Missing ones are no error.
    pub async fn unbind_all(&self, exchange: &str, key: &str) -> Result<(), Fault> {
        let exchange = self.resource("exchange", exchange);
        let code = format!(
            "[ok = rabbit_binding:remove(B, <<\"test\">>) || B <- rabbit_binding:list_for_source({exchange}), \
             element(3, B) =:= <<\"{key}\">>], ok."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// How many messages each queue holds, those that were delivered and not settled included.
    pub async fn messages(&self) -> Result<Vec<(String, u64)>, Fault> {
        let code = format!(
            "Count = fun(Q) -> case amqqueue:get_type(Q) of rabbit_quorum_queue -> \
             {{ok, {{_, N}}, _}} = ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N; \
             _ -> [{{messages, N}}] = rabbit_amqqueue:info(Q, [messages]), N end end, \
             lists:flatten([io_lib:format(\"~s=~b \", [element(4, amqqueue:get_name(Q)), Count(Q)]) || \
             Q <- rabbit_amqqueue:list(<<\"{}\">>)]).",
            self.name
        );
        let said = self.server.eval(&code).await?;
        let listed = text_of(&said);
        let count = |entry: &str| -> Result<(String, u64), Fault> {
            let (queue, messages) = entry.split_once('=').ok_or_else(|| format!("it says {said}"))?;
            Ok((queue.to_owned(), messages.parse()?))
        };
        listed.split_whitespace().filter(|entry| *entry != "[]").map(count).collect()
    }

    /// An argument that a queue was declared with, as text.
    pub async fn argument(&self, queue: &str, name: &str) -> Result<String, Fault> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), {{_, V}} = rabbit_misc:table_lookup(\
             amqqueue:get_arguments(Q), <<\"{name}\">>), lists:flatten(io_lib:format(\"~s\", \
             [if is_integer(V) -> integer_to_list(V); true -> V end]))."
        );
        Ok(text_of(&self.server.eval(&code).await?).to_owned())
    }

    /// Lets a quorum queue forget its consumers, who are told nothing.
    pub async fn forget_consumers(&self, queue: &str) -> Result<(), Fault> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), {{ok, {{_, C}}, _}} = ra:leader_query(\
             amqqueue:get_pid(Q), fun rabbit_fifo:query_consumers/1), [{{ok, _, _}} = ra:process_command(\
             amqqueue:get_pid(Q), rabbit_fifo:make_checkout(Id, cancel, #{{}})) || Id <- maps:keys(C)]."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Closes every connection to it, as an operator does.
    pub async fn close_connections(&self) -> Result<(), Fault> {
        let code = format!(
            "[rabbit_networking:close_connection(P, \"test\") || [{{pid, P}}, {{vhost, <<\"{}\">>}}] <- \
             rabbit_networking:connection_info_all([pid, vhost])].",
            self.name
        );
        self.server.eval(&code).await.map(drop)
    }
}

/// The text that an evaluation ended with.
fn text_of(said: &str) -> &str {
    said.trim_start_matches("{ok,").trim().trim_end_matches('}').trim().trim_matches('"')
}

impl Drop for TestVhost {
    fn drop(&mut self) {
        super::lock(&self.server.finished).push(std::mem::take(&mut self.name));
    }
}
