//! Blocks of ids.

use async_trait::async_trait;
use handover_application::ports::{IdBlocks, IdKind, StoreError};

use crate::session::Session;
use crate::value::values;

impl Session {
    /// Reserves ids under any name; the first of all is 1.
    pub(crate) async fn take_block(&mut self, kind: &str, size: u32) -> Result<i64, StoreError> {
        let size = i64::from(size);
        let moved = self
            .execute("UPDATE id_blocks SET next_id = next_id + ? WHERE kind = ?", values![size, kind])
            .await?;
        if moved == 0 {
            // Two that find none at once: one of them meets a taken key and begins again.
            self.execute("INSERT INTO id_blocks (kind, next_id) VALUES (?, ?)", values![kind, 1 + size])
                .await?;
            return Ok(1);
        }
        let row = self.fetch_one("SELECT kind, next_id FROM id_blocks WHERE kind = ?", values![kind]).await?;
        let row = row.ok_or_else(|| StoreError::Backend("a block of ids was lost".into()))?;
        Ok(row.of("id_blocks", "kind").int("next_id")? - size)
    }
}

#[async_trait]
impl IdBlocks for Session {
    async fn take_id_block(&mut self, kind: IdKind, size: u32) -> Result<i64, StoreError> {
        self.take_block(kind.as_str(), size).await
    }
}
