package server

import (
	"slices"
	"strings"
)

// aclCommands answer for the one user there is. Users of one's own are not
// supported, and say so.
func aclCommands() []command {
	const flags = flagLoading | flagStale | flagNoScript
	sub := func(name string, arity int, extra flag, syntax, summary string, handler func(*conn, [][]byte)) command {
		return command{
			name: name, arity: arity, flags: flags | extra, group: "server", complexity: "O(1)",
			summary: summary, syntax: syntax, handler: handler,
		}
	}
	return []command{{
		name: "acl", arity: -2, group: "server", complexity: "Depends on subcommand.",
		summary: "A container for Access List Control commands.",
		subs: []command{
			sub("whoami", 2, 0, "", "Returns the authenticated username of the current connection.", cmdACLWhoAmI),
			sub("users", 2, flagAdmin, "", "Lists all ACL users.", cmdACLUsers),
			sub("list", 2, flagAdmin, "", "Dumps the effective rules in ACL file format.", cmdACLList),
			sub("getuser", 3, flagAdmin, "username", "Lists the ACL rules of a user.", cmdACLGetUser),
			sub("cat", -2, 0, "[category]", "Lists the ACL categories, or the commands inside a category.", cmdACLCat),
			sub("setuser", -3, flagAdmin, "username [rule [rule ...]]", "Refused: there is one user, default.", cmdACLUnsupported),
			sub("deluser", -3, flagAdmin, "username [username ...]", "Refused: there is one user, default.", cmdACLUnsupported),
		},
	}}
}

func cmdACLWhoAmI(c *conn, _ [][]byte) { c.w.BulkString("default") }

func cmdACLUsers(c *conn, _ [][]byte) {
	c.w.Array(1)
	c.w.BulkString("default")
}

// passwordFlag is how ACL describes whether a password is asked for.
func (s *Server) passwordFlag() string {
	if s.password() == "" {
		return "nopass"
	}
	return "sanitize-payload"
}

func cmdACLList(c *conn, _ [][]byte) {
	c.w.Array(1)
	c.w.BulkString("user default on " + c.srv.passwordFlag() + " ~* &* +@all")
}

func cmdACLGetUser(c *conn, args [][]byte) {
	if string(args[2]) != "default" {
		c.w.Null()
		return
	}
	c.w.Map(6)
	c.w.BulkString("flags")
	c.w.Set(2)
	c.w.BulkString("on")
	c.w.BulkString(c.srv.passwordFlag())
	c.w.BulkString("passwords")
	c.w.Array(0)
	for _, f := range [][2]string{{"commands", "+@all"}, {"keys", "~*"}, {"channels", "&*"}} {
		c.w.BulkString(f[0])
		c.w.BulkString(f[1])
	}
	c.w.BulkString("selectors")
	c.w.Array(0)
}

func cmdACLCat(c *conn, args [][]byte) {
	if len(args) == 2 {
		c.w.Array(len(categoryNames))
		for _, n := range categoryNames {
			c.w.BulkString(n)
		}
		return
	}
	i := slices.Index(categoryNames, strings.ToLower(string(clip(args[2], 64))))
	if i < 0 || len(args) > 3 {
		c.error("ERR Unknown category '" + string(clip(args[2], 128)) + "'")
		return
	}
	var names []string
	c.srv.table.each(func(cmd *command) {
		if cmd.categories&(1<<i) != 0 {
			names = append(names, cmd.full)
		}
	})
	c.w.Array(len(names))
	for _, n := range names {
		c.w.BulkString(n)
	}
}

func cmdACLUnsupported(c *conn, _ [][]byte) {
	c.error("ERR ACL users are not supported: there is one user, default, whose password is requirepass")
}
