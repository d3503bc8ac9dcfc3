package server

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
)

// # Databases
//
// A connection works in one of the engine's databases; SELECT changes it from 0. The
// sessions of a lane work in database 0. A connection in another database has modeDatabase,
// so its commands pass through carefully. There execute switches the lane's session while
// the command runs. So commands in database 0 need no check. Objects that outlast a command
// store its database: a frame, a job's session, a watched key.

// use switches the portion's session to a database.
func (p *portion) use(db uint8) {
	if db != p.db {
		p.db = db
		p.sess.Use(db)
	}
}

// enterDatabase makes db the connection's database.
func (c *conn) enterDatabase(db uint8) {
	if db == c.db {
		return
	}
	c.db = db
	c.mode &^= modeDatabase
	if db != 0 {
		c.mode |= modeDatabase
	}
	c.setMeta(func(m *clientMeta) { m.db = db })
}

// Databases implements command.Host. Clients of a Redis Cluster have only one database.
func (c *conn) Databases() int {
	if c.moves {
		return 1
	}
	return algo.Databases
}

// ofDatabase decides limits in a database for a Limiter without a session. A session has a
// database itself.
type ofDatabase struct {
	command.Limiter
	db uint8
}

func (d ofDatabase) Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error) {
	l.DB = d.db
	return d.Limiter.Decide(now, key, l, cost, o)
}

func (d ofDatabase) DecideAll(now int64, segs []engine.Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	for i := range segs {
		segs[i].Limit.DB = d.db
	}
	return d.Limiter.DecideAll(now, segs, o, out)
}

func cmdSelect(c *conn, args [][]byte) {
	db, err := c.parseDatabase(args[1])
	if err != nil {
		c.error(err.Error())
		return
	}
	c.enterDatabase(db)
	if c.inExec {
		c.lane.use(db)
	}
	c.w.OK()
}

// parseDatabase reads the argument of SELECT. Its errors are replies.
func (c *conn) parseDatabase(b []byte) (db uint8, err error) {
	return command.ParseDatabase(b, c.Databases(), "ERR SELECT is not allowed in cluster mode")
}

// selects returns the database that is in use after a transaction which begins in the
// connection's database.
func (tx *transaction) selects(c *conn) uint8 {
	db := c.db
	for _, q := range tx.queue {
		if q.cmd.Flags&command.Select != 0 {
			if to, err := c.parseDatabase(q.args[1]); err == nil {
				db = to
			}
		}
	}
	return db
}
