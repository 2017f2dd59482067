//! A vhost per test, and administrative operations on it.

use std::sync::Arc;

use super::super::PASSWORD;
use super::RabbitServer;
use super::setup::USER;
use crate::process::BoxError;

/// Vhost of one test.
#[derive(Debug)]
pub struct TestVhost {
    pub(super) name: String,
    pub(super) server: Arc<RabbitServer>,
}

impl TestVhost {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// URL through the server's own port.
    pub fn url(&self) -> String {
        self.url_through(self.server.port())
    }

    /// URL through the port of a proxy.
    pub fn url_through(&self, port: u16) -> String {
        format!("amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/{}", self.name)
    }

    /// URL with TLS, if the server offers it.
    pub fn encrypted_url(&self) -> Option<String> {
        let port = self.server.encrypted_port()?;
        Some(format!("amqps://{USER}:{PASSWORD}@localhost:{port}/{}", self.name))
    }

    pub fn server(&self) -> &Arc<RabbitServer> {
        &self.server
    }

    /// Erlang expression of a resource in this vhost.
    fn resource(&self, kind: &str, name: &str) -> String {
        format!("rabbit_misc:r(<<\"{}\">>, {kind}, <<\"{name}\">>)", self.name)
    }

    /// Lets the user of the tests read the queues and exchanges whose names match a pattern, as an administrator.
    pub async fn set_readable(&self, pattern: &str) -> Result<(), BoxError> {
        let code = format!(
            "rabbit_auth_backend_internal:set_permissions(<<\"{USER}\">>, <<\"{}\">>, <<\".*\">>, <<\".*\">>, \
             <<\"{pattern}\">>, <<\"test\">>).",
            self.name
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Sets a policy for the queues that match a pattern, as an administrator. `definition` is an Erlang property list.
    pub async fn set_policy(&self, name: &str, pattern: &str, definition: &str) -> Result<(), BoxError> {
        let code = format!(
            "ok = rabbit_policy:set(<<\"{}\">>, <<\"{name}\">>, <<\"{pattern}\">>, {definition}, 0, <<\"queues\">>, \
             <<\"test\">>).",
            self.name
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Deletes a queue with its messages, as an administrator.
    pub async fn delete_queue(&self, queue: &str) -> Result<(), BoxError> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), rabbit_amqqueue:delete(Q, false, false, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Deletes an exchange with its bindings, as an administrator.
    pub async fn delete_exchange(&self, exchange: &str) -> Result<(), BoxError> {
        let exchange = self.resource("exchange", exchange);
        self.server
            .eval(&format!("ok = rabbit_exchange:delete({exchange}, false, <<\"test\">>)."))
            .await
            .map(drop)
    }

    /// Removes a binding of a queue, as an administrator.
    pub async fn unbind(&self, exchange: &str, queue: &str, key: &str) -> Result<(), BoxError> {
        let exchange = self.resource("exchange", exchange);
        let queue = self.resource("queue", queue);
        let code = format!(
            "[B] = [B || B <- rabbit_binding:list_for_source_and_destination({exchange}, {queue}), \
             element(3, B) =:= <<\"{key}\">>], ok = rabbit_binding:remove(B, <<\"test\">>)."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Removes every binding of an exchange with this routing key, in one call. It is not an error if there is none.
    pub async fn unbind_all(&self, exchange: &str, keys: &[&str]) -> Result<(), BoxError> {
        let exchange = self.resource("exchange", exchange);
        let keys: Vec<String> = keys.iter().map(|key| format!("<<\"{key}\">>")).collect();
        let code = format!(
            "[ok = rabbit_binding:remove(B, <<\"test\">>) || B <- rabbit_binding:list_for_source({exchange}), \
             lists:member(element(3, B), [{}])], ok.",
            keys.join(", ")
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Number of messages in each queue, including delivered messages that are not acked or nacked yet.
    pub async fn messages(&self) -> Result<Vec<(String, u64)>, BoxError> {
        let code = format!(
            "Count = fun(Q) -> case amqqueue:get_type(Q) of rabbit_quorum_queue -> \
             {{ok, {{_, N}}, _}} = ra:leader_query(amqqueue:get_pid(Q), fun rabbit_fifo:query_messages_total/1), N; \
             _ -> [{{messages, N}}] = rabbit_amqqueue:info(Q, [messages]), N end end, \
             lists:flatten([io_lib:format(\"~s=~b \", [element(4, amqqueue:get_name(Q)), Count(Q)]) || \
             Q <- rabbit_amqqueue:list(<<\"{}\">>)]).",
            self.name
        );
        let result = self.server.eval(&code).await?;
        let listed = text_of(&result);
        let count = |entry: &str| -> Result<(String, u64), BoxError> {
            let (queue, messages) =
                entry.split_once('=').ok_or_else(|| format!("unexpected result: {result}"))?;
            Ok((queue.to_owned(), messages.parse()?))
        };
        listed.split_whitespace().filter(|entry| *entry != "[]").map(count).collect()
    }

    /// An argument of a queue's declaration, as text.
    pub async fn argument(&self, queue: &str, name: &str) -> Result<String, BoxError> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), {{_, V}} = rabbit_misc:table_lookup(\
             amqqueue:get_arguments(Q), <<\"{name}\">>), lists:flatten(io_lib:format(\"~s\", \
             [if is_integer(V) -> integer_to_list(V); true -> V end]))."
        );
        Ok(text_of(&self.server.eval(&code).await?).to_owned())
    }

    /// Removes the consumers of a quorum queue without notifying them.
    pub async fn remove_consumers(&self, queue: &str) -> Result<(), BoxError> {
        let queue = self.resource("queue", queue);
        let code = format!(
            "{{ok, Q}} = rabbit_amqqueue:lookup({queue}), {{ok, {{_, C}}, _}} = ra:leader_query(\
             amqqueue:get_pid(Q), fun rabbit_fifo:query_consumers/1), [{{ok, _, _}} = ra:process_command(\
             amqqueue:get_pid(Q), rabbit_fifo:make_checkout(Id, cancel, #{{}})) || Id <- maps:keys(C)]."
        );
        self.server.eval(&code).await.map(drop)
    }

    /// Closes all connections to the vhost, as an administrator.
    pub async fn close_connections(&self) -> Result<(), BoxError> {
        let code = format!(
            "[rabbit_networking:close_connection(P, \"test\") || [{{pid, P}}, {{vhost, <<\"{}\">>}}] <- \
             rabbit_networking:connection_info_all([pid, vhost])].",
            self.name
        );
        self.server.eval(&code).await.map(drop)
    }
}

/// The text in the output of an evaluated Erlang expression, for example `text` in `{ok, "text"}`.
fn text_of(result: &str) -> &str {
    result.trim_start_matches("{ok,").trim().trim_end_matches('}').trim().trim_matches('"')
}

impl Drop for TestVhost {
    fn drop(&mut self) {
        super::lock(&self.server.finished).push(std::mem::take(&mut self.name));
    }
}
