package server

import (
	"errors"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// # Databases
//
// A connection works in one of the engine's databases, 0 to begin with (SELECT).
// The sessions of its lane work in database 0. A connection in another one has
// modeDatabase, which sends its commands through carefully, and execute turns the
// lane's session there for as long as a command runs: no command of database 0
// looks at a number. What outlasts its command has its own: a frame, a job's
// session, a watched key.

// use turns the portion's session to a database.
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

// Databases implements command.Host: clients of a Redis Cluster know of one.
func (c *conn) Databases() int {
	if !c.relayed && c.srv.redisMode() == "cluster" {
		return 1
	}
	return engine.Databases
}

// ofDatabase decides the limits of a database. A session works in one itself.
type ofDatabase struct {
	command.Limiter
	db uint8
}

func (d ofDatabase) Decide(now int64, key []byte, l engine.Limit, cost int64, o *engine.Options) (engine.Decision, error) {
	l.DB = d.db
	return d.Limiter.Decide(now, key, l, cost, o)
}

func (d ofDatabase) DecideAll(now int64, segs []engine.Segment, o *engine.Options, out []engine.Decision) (binding int, err error) {
	for i := range segs {
		segs[i].Limit.DB = d.db
	}
	return d.Limiter.DecideAll(now, segs, o, out)
}

func cmdSelect(c *conn, args [][]byte) {
	db, err := c.parseDatabase(args[1])
	if err != nil {
		c.error(err.Error())
		c.endIfNotYet(err)
		return
	}
	c.enterDatabase(db)
	if c.inExec {
		c.lane.use(db)
	}
	c.w.OK()
}

// Errors of a SELECT that may succeed later, for a client and for another node.
var (
	errDatabasesLater = errors.New("TRYAGAIN there are no other databases yet: this node has not heard from its cluster, or a node of it is of an older version; connect again")
	errLastWord       = errors.New(partition.TextClosing)
)

// parseDatabase reads the argument of SELECT. Its errors are replies.
func (c *conn) parseDatabase(b []byte) (db uint8, err error) {
	db, err = command.ParseDatabase(b, c.Databases(), "ERR SELECT is not allowed in cluster mode")
	switch {
	case err != nil || db == 0 || c.srv.engine.HasDatabases():
		return db, err
	case c.relayed: // the other node sends again what follows
		return 0, errLastWord
	}
	// A leader of an older version would execute in database 0 what a
	// follower forwards.
	return 0, errDatabasesLater
}

// endIfNotYet ends the connection after a SELECT that failed, if it may succeed
// later: a client that does not look at the reply does not go on in the old
// database. A client that connects again tries again.
func (c *conn) endIfNotYet(err error) {
	if errors.Is(err, errDatabasesLater) || errors.Is(err, errLastWord) {
		c.ending = closes
	}
}

// selects returns the database that a transaction ends in which began in db.
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
