package server

import (
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/scripts"
	"github.com/headgate-io/headgate/server/turns"
)

// execAside runs a transaction on a worker. The watches end with the transaction.
func (c *conn) execAside(tx *transaction, watched watches) {
	s, e := c.srv, c.lane.sess.Engine()
	t := &scripts.Transaction{
		Watched: watched.keys, Database: c.db, RESP3: c.resp3, Addr: c.addr, Admin: c.relayed || c.Administers(), Shown: tx.shown,
		Keys: func(now int64) [][]byte { return tx.keys(watched.keys, now) },
	}
	for _, q := range tx.queue {
		t.Commands = append(t.Commands, q.args)
	}
	c.blockSync(tx.size, watched.end, func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) command.SyncMode {
		s.scripts.Exec(e, t, w, spent, x)
		return command.SyncDefault
	})
}
