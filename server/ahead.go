package server

import "github.com/headgate-io/headgate/server/command"

// lookahead is how many commands of a pipeline are parsed before the first of
// them runs. Sixteen cache misses at a time are about what a core can have
// outstanding.
const lookahead = 16

// ahead is the scratch of runAhead: where each parsed command ends.
type ahead struct {
	ends [lookahead]struct{ arg, byte int }
	keys [][]byte
	// derives: there are commands whose keys follow from their arguments.
	derives bool
}

// runAhead parses several commands of a pipeline, asks for the states of all
// their keys, and then runs them, so that the cache misses of a large table
// overlap. It returns how many bytes it ran; 0 when that would gain nothing,
// or when what comes next is no ordinary command.
//
// It does so only after authentication, which changes the limits of parsing.
func (c *conn) runAhead(buf []byte) int {
	l := c.lane
	if !c.lane.sess.Cold() || c.mode&modeNoAuth != 0 {
		return 0
	}
	args, a := l.args[:0], &l.ahead
	a.keys, a.derives = a.keys[:0], false
	count, at := 0, 0
	for count < lookahead {
		from := len(args)
		var used int
		if args, used = c.parser.Ahead(buf[at:], c.limits, args); used == 0 {
			break
		}
		at += used
		a.ends[count].arg, a.ends[count].byte = len(args), at
		count++
		a.keys = l.firstKeys(a.keys, args[from:])
	}
	if cap(args) > cap(l.args) {
		l.args = args
	}
	if count < 2 {
		return 0
	}
	l.use(c.db)
	l.sess.Warm(a.keys)
	l.use(0)
	if a.derives {
		l.derive(args, count)
	}
	from := 0
	for i := range count {
		end := a.ends[i]
		c.runOne(args[from:end.arg])
		if from = end.arg; c.stall != 0 || c.ending == closes {
			at = end.byte
			break
		}
	}
	l.call.Round++ // the scratch is the next commands'
	return at
}

// derive has the commands prepared that find their keys themselves.
func (l *lane) derive(args [][]byte, count int) {
	from := 0
	for _, end := range l.ahead.ends[:count] {
		one := args[from:end.arg]
		from = end.arg
		if len(one) == 0 {
			continue
		}
		if cmd := l.find(one); cmd != nil && cmd.Ahead != nil && cmd.Accepts(len(one)) {
			cmd.Ahead(&l.call, one)
		}
	}
}

// firstKeys appends the first key of a command, or the first two of a script, and
// notes commands that find their keys themselves.
func (l *lane) firstKeys(keys, args [][]byte) [][]byte {
	if len(args) < 2 {
		return keys
	}
	switch cmd := l.find(args); {
	case cmd == nil:
	case cmd.Keys.First == 1:
		keys = append(keys, args[1])
	case cmd.Flags&command.Script != 0 && len(args) > 3:
		if n := args[2]; len(n) == 1 && n[0] == '1' {
			return append(keys, args[3])
		}
		// What is no key is asked for in vain.
		keys = append(keys, args[3:min(len(args), 5)]...)
	case cmd.Ahead != nil:
		l.ahead.derives = l.ahead.derives || l.mode&modeElsewhere == 0
	}
	return keys
}
