package server

import (
	"context"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
)

// Client is the sender of a command: its user, its own name, and its address.
type Client = access.Client

// # Users
//
// There is one user, default, whose password is requirepass. If admin-pass is set, there is
// a second user, admin, and only admin may run guarded commands (command.Guarded). Each
// connection has one of these users. The connection that sends a command checks the right
// to run it when the command arrives. If the command runs later, the right is checked
// again: at EXEC, after an AUTH in the transaction, and when a script calls the command. So
// a change of admin-pass applies at once to open connections. Connections of admin stay
// connections of admin.
//
// A node checks the commands that it forwards for a client, and the leader does not check
// them again. But only the node that runs a script knows which commands the script calls,
// and only the client's node knows the user. So the client's node sends RL.CLIENT before
// scripts of admin. It also sends RL.CLIENT before changes, because otherwise the node
// would be their author.
//
// A Caller is trusted in the same way as the process, and names the client itself.

// password returns the default user's password. If it is empty, everyone is admitted.
func (s *Server) password() string { return s.runtime.Load().RequirePass }

// guards reports whether the user admin exists.
func (s *Server) guards() bool { return s.runtime.Load().AdminPass != "" }

// users returns the existing users.
func (s *Server) users() []string {
	if s.guards() {
		return []string{access.UserDefault, access.UserAdmin}
	}
	return []string{access.UserDefault}
}

// accessRules returns the credentials that are valid.
func (s *Server) accessRules() access.Rules {
	r := s.runtime.Load()
	return access.Rules{RequirePass: r.RequirePass, AdminPass: r.AdminPass, Grants: &r.Access}
}

// login authenticates the client as a user, and reports whether it succeeded.
func (c *conn) login(user, pass []byte) bool {
	rules := c.srv.accessRules()
	ok, admin := rules.Login(user, pass)
	if ok {
		c.become(admin)
		c.authenticated()
	}
	return ok
}

// guessable reports whether any password is set.
func (s *Server) guessable() bool { return s.password() != "" || s.guards() }

// errWrongPass is the text of a failed login, from Redis.
const errWrongPass = "WRONGPASS invalid username-password pair or user is disabled."

// rejectLogin replies to a wrong password, after a delay. The connection runs nothing until
// then.
func (c *conn) rejectLogin() {
	if !c.srv.guessable() { // a wrong user, and there is no password to guess
		c.srv.stats.counts[countAuthFailures].Add(1)
		c.error(errWrongPass)
		return
	}
	wait, ok := c.srv.gate.Fail(c.addr, time.Now())
	if !ok {
		c.kill()
		return
	}
	c.blockAside(func(ctx context.Context, w *resp.Writer) {
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		w.Error(errWrongPass)
	})
}

// become sets the connection's user to admin or default.
func (c *conn) become(admin bool) {
	c.setMeta(func(m *clientMeta) { m.admin = admin })
}

// user returns the name of a connection's user.
func (m *clientMeta) user() string {
	if m.admin {
		return access.UserAdmin
	}
	return access.UserDefault
}

// authenticated removes the restrictions of a client that has not authenticated.
func (c *conn) authenticated() {
	c.limits = &c.srv.limits
	c.mode &^= modeNoAuth
}

// Administers implements command.Host.
func (c *conn) Administers() bool { return c.meta.Load().admin || !c.srv.guards() }

// permitted reports whether the client may run a command or, for EXEC, all commands of its
// transaction.
func (c *conn) permitted(cmd *command.Spec, args [][]byte) bool {
	guarded := cmd.ForAdmin(args) || cmd.Flags&command.Exec != 0 && c.tx != nil && c.tx.guarded
	return !guarded || c.relayed || c.Administers()
}

// deny replies an error to a command that the client may not run. If the command is in a
// transaction, the transaction ends.
func (c *conn) deny(cmd *command.Spec) {
	if cmd.Flags&command.Exec == 0 {
		c.refuse(c.noPermission(cmd))
		return
	}
	for _, q := range c.tx.queue {
		if q.cmd.ForAdmin(q.args) {
			cmd = q.cmd
			break
		}
	}
	c.endTransaction()
	c.refuse("EXECABORT Transaction discarded because of: " + c.noPermission(cmd))
}

func (c *conn) noPermission(cmd *command.Spec) string {
	return "NOPERM " + access.NoPermission(c.meta.Load().user(), cmd.Full)
}

// Author implements command.Host.
func (c *conn) Author() string {
	who := c.client()
	return author(who.User, who.Name, who.Addr)
}

// client returns the client that sends the connection's commands.
func (c *conn) client() Client {
	if c.behalf != (Client{}) {
		return c.behalf
	}
	m := c.meta.Load()
	return Client{User: m.user(), Name: m.name, Addr: c.addr}
}

// author returns a text about who has made a change: "admin deploy at 10.0.0.1:5000".
func author(user, name, addr string) string {
	if name != "" {
		user += " " + name
	}
	return user + " at " + addr
}

// speaksFor notes in a frame who sends a command, if the leader must know it. That is so
// for a change, because of its author, and for a script of admin, which may call guarded
// commands.
func (f *frame) speaksFor(c *conn, cmd *command.Spec) {
	const runs = command.Script | command.Exec
	tells := cmd.Flags&command.Guarded != 0 || c.tx != nil && c.tx.guarded ||
		cmd.Flags&runs != 0 && c.meta.Load().admin && c.srv.guards()
	if tells {
		f.Client = c.client()
	}
}
