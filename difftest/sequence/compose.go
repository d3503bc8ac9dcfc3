package sequence

// transaction begins or ends a transaction of the connection.
func (g *Generator) transaction() {
	switch n := g.rng.IntN(10); {
	case n == 9 && g.has("RESET") && g.rng.IntN(2) == 0:
		g.queueing[g.conn] = false
		g.send("RESET")
	case g.queueing[g.conn] && n < 8:
		g.queueing[g.conn] = false
		g.send("EXEC")
	case g.queueing[g.conn] && n == 8 && g.has("DISCARD"):
		g.queueing[g.conn] = false
		g.send("DISCARD")
	case g.queueing[g.conn] || n == 0: // an error where it is out of place
		if !g.queueing[g.conn] {
			g.send(g.pick("EXEC", "DISCARD"))
			return
		}
		g.send("MULTI")
	default:
		if g.watch && g.rng.IntN(2) == 0 {
			g.send("WATCH", g.anyKey(), g.anyKey())
		}
		g.queueing[g.conn] = true
		g.send("MULTI")
	}
}

// iterate appends a scan from its beginning to its end, or a command whose
// reply is chosen by the server.
func (g *Generator) iterate() {
	match := func(s *Step) {
		if g.rng.IntN(2) == 0 {
			s.Args = append(s.Args, "MATCH", g.pattern())
		}
		if g.rng.IntN(2) == 0 {
			s.Args = append(s.Args, "COUNT", g.pick("1", "3", "10", "100"))
		}
		s.Scan, s.Joined = true, false
	}
	switch n := g.rng.IntN(6); {
	case n == 0 && g.has("SPOP"):
		// Which member is taken is the server's choice, so none is left.
		key := g.keyOf("u")
		g.send("SPOP", key, g.pick("1", "2", "100"))
		g.send("DEL", key)
	case n == 1 && g.has("HSCAN"):
		s := g.send("HSCAN", g.keyOf("h"), "0")
		s.Cursor = 2
		match(s)
	case n == 2 && g.has("SSCAN"):
		s := g.send("SSCAN", g.keyOf("u"), "0")
		s.Cursor = 2
		match(s)
	case n == 3 && g.has("ZSCAN"):
		s := g.send("ZSCAN", g.keyOf("z"), "0")
		s.Cursor = 2
		match(s)
	case g.has("SCAN"):
		s := g.send("SCAN", "0")
		s.Cursor = 1
		match(s)
		if g.rng.IntN(3) == 0 {
			s.Args = append(s.Args, "TYPE", g.pick("string", "hash", "set", "zset", "list", "nosuch"))
		}
	}
}
