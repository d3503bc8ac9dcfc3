package native_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/script/native"
)

// subject is a known script and how it is called.
type subject struct {
	// name is the Library of the known script.
	name string
	// sha is the SHA1 of a text that a library sends.
	sha string
	// own is a text in words of ours that does the same, for machines without
	// the packages of libraries.
	own string
	// keys is how many keys a call has.
	keys int
	// args returns the arguments of a call.
	args func(g *gen) []string
	// other returns a command that somebody else sends about a key: clients of
	// another version, and programs that know nothing of the script. It is nil
	// where those that suit a counter will do.
	other func(g *gen, key string) []string
	// avoid are odd arguments with which the script never ends.
	avoid []string
}

// gen makes random calls.
type gen struct {
	*rand.Rand
	now time.Time
}

func (g *gen) pick(from ...string) string { return from[g.IntN(len(from))] }

// within is a number of first to last, as text.
func (g *gen) within(first, last int) string { return strconv.Itoa(first + g.IntN(last-first+1)) }

func (g *gen) chance(percent int) bool { return g.IntN(100) < percent }

// odd are arguments that no library sends; still the replies are the same.
var odd = []string{
	"", "0", "-1", "1.5", "-0.5", "1e3", "1e-7", "007", "+5", " 5", "5 ", "0x10", "abc", "nan", "inf", "-inf", "-0", "1e400", "true", "false", "\x00\xff",
	"4503599627370495", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "12345678901234567890", "5e12", "100000000000000",
}

// call returns the arguments of a call, now and then with one that is odd,
// missing, or too many.
func (g *gen) call(s *subject) []string {
	args := slices.Clone(s.args(g))
	switch {
	case len(args) == 0 || !g.chance(8):
	case g.chance(15):
		args = args[:g.IntN(len(args))]
	case g.chance(15):
		args = append(args, "more")
	default:
		if arg := odd[g.IntN(len(odd))]; !slices.Contains(s.avoid, arg) {
			args[g.IntN(len(args))] = arg
		}
	}
	return args
}

// counterCommand is a command of others on a counter, or on a value that should
// have been one.
func counterCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	ms := g.within(1, 3000)
	return [][]string{
		{"DEL", key}, {"GET", key}, {"INCR", key}, {"DECR", key}, {"INCRBY", key, g.within(-5, 50)}, {"PTTL", key}, {"PEXPIRE", key, ms}, {"PERSIST", key},
		{"SET", key, g.within(-3, 30)}, {"SET", key, g.within(0, 30), "PX", ms}, {"SETEX", key, g.within(1, 3), g.within(0, 9)}, {"GETSET", key, g.within(0, 9)},
		{"SET", key, g.pick("9007199254740992", "-9007199254740993")}, // up to where Lua counts
	}[g.IntN(13)]
}

// spoil makes a key what the script does not expect.
func (g *gen) spoil(key string) []string {
	return [][]string{
		{"SET", key, odd[g.IntN(len(odd))]}, {"SET", key, odd[g.IntN(len(odd))], "PX", g.within(1, 3000)}, {"APPEND", key, "0"},
		{"HSET", key, "field", "1"}, {"RPUSH", key, "1", "x"}, {"ZADD", key, "1", "m"}, {"SADD", key, "m"},
	}[g.IntN(7)]
}

// pause is how far clocks move between calls about windows of a second or so.
func (g *gen) pause() time.Duration {
	switch g.IntN(10) {
	case 0:
		return time.Duration(g.IntN(3000)) * time.Millisecond
	case 1, 2, 3:
		return time.Duration(g.IntN(300)) * time.Millisecond
	case 4, 5:
		return time.Millisecond
	}
	return 0
}

// run is one comparison: a random sequence of calls of a script and of commands
// of others on its keys.
type run struct {
	*oracle
	gen
	s     *subject
	texts texts
	keys  []string // of all calls
	log   []string // the last steps
}

// compare sends steps random steps about a script with a text to all servers,
// and demands that replies and what is stored are the same.
func (r *oracle) compare(t testing.TB, s *subject, body string, steps int, seed uint64) {
	r.t = t
	h := fnv.New64()
	h.Write([]byte(s.name))
	c := &run{oracle: r, s: s, texts: newTexts(body)}
	c.gen = gen{rand.New(rand.NewPCG(seed, h.Sum64())), r.now}
	r.load(&c.texts)
	r.each(toAll([]string{"FLUSHALL"}))
	for group := range 2 {
		for i := range s.keys {
			c.keys = append(c.keys, fmt.Sprintf("key:{%s:%d}:%d", s.name, group, i))
		}
	}
	for range steps {
		if !c.step() {
			r.t.Fatalf("%s, seed %d: the last steps were\n%s", s.name, seed, strings.Join(c.log, "\n"))
		}
	}
}

// step takes one step and reports whether all was the same.
func (c *run) step() bool {
	c.advance()
	switch n := c.IntN(100); {
	case n < 70:
		return c.same(c.evals(1)) && c.sameStored()
	case n < 75:
		return c.same(c.evals(1+c.IntN(3), "MULTI")) && c.sameStored()
	case n < 78:
		hello := []string{"HELLO", c.pick("2", "3")}
		c.each(toAll(hello)) // whose replies tell of the servers
		c.note(fmt.Sprintf("%q", hello))
		return true
	default:
		other := c.s.other
		if other == nil {
			other = counterCommand
		}
		cmd := other(&c.gen, c.keys[c.IntN(len(c.keys))])
		return c.same(toAll(cmd)) && c.sameStored()
	}
}

// advance moves the clocks, and on where a key is at its last instant: Redis,
// which counts in whole milliseconds, still has it then.
func (c *run) advance() {
	by := c.pause()
	if by == 0 {
		return
	}
	c.move(by)
	var left [][]string
	for _, k := range c.keys {
		left = append(left, []string{"PTTL", k})
	}
	for slices.Contains(c.do(redis, left...), ":0\r\n") {
		c.move(time.Millisecond)
		by += time.Millisecond
	}
	c.gen.now = c.oracle.now
	c.note(fmt.Sprintf("%v later", by))
}

// evals returns calls for each of the servers, in a transaction if asked for.
func (c *run) evals(n int, multi ...string) (to [servers][][]string) {
	for range len(multi) {
		for i := range to {
			to[i] = append(to[i], []string{"MULTI"})
		}
	}
	for range n {
		group := c.IntN(2) * c.s.keys
		keys := c.keys[group : group+c.s.keys]
		args := c.call(c.s)
		if c.chance(2) {
			keys = keys[:c.IntN(len(keys)+1)]
		}
		bySHA, other := c.chance(70), c.chance(50)
		for i := range to {
			tx := c.texts.of(i, other)
			cmd := []string{"EVAL", tx.body}
			if bySHA {
				cmd = []string{"EVALSHA", tx.sha}
			}
			cmd = append(append(append(cmd, strconv.Itoa(len(keys))), keys...), args...)
			to[i] = append(to[i], cmd)
		}
	}
	for range len(multi) {
		for i := range to {
			to[i] = append(to[i], []string{"EXEC"})
		}
	}
	return to
}

// same sends each server its commands and reports whether all reply alike.
func (c *run) same(to [servers][][]string) bool {
	var want string
	for i, replies := range c.each(to) {
		got := c.texts.plain(strings.Join(replies, " "))
		if i == redis {
			want = got
			for n, cmd := range to[i] {
				if len(cmd) > 1 && cmd[0] == "EVAL" {
					cmd = append([]string{"EVAL", "…"}, cmd[2:]...)
				}
				c.note(fmt.Sprintf("%q: %q", cmd, replies[n]))
			}
		} else if got = c.near(want, got); got != want {
			c.t.Errorf("redis-server replies %q, %s %q", want, serverNames[i], got)
			return false
		}
	}
	return true
}

// sameStored reports whether all servers hold the same in the keys.
func (c *run) sameStored() bool {
	states := c.stored(c.keys)
	for i, got := range states {
		if got = c.near(states[redis], got); got != states[redis] {
			c.t.Errorf("redis-server holds %q, %s %q", states[redis], serverNames[i], got)
			return false
		}
	}
	return true
}

// note keeps a step for a failure to show.
func (c *run) note(step string) {
	const most = 12
	if len(c.log) == most {
		c.log = c.log[1:]
	}
	c.log = append(c.log, step)
}

// compareAll compares all subjects in their texts, each of which names a known
// script. It demands that known scripts run most calls.
func compareAll(t *testing.T, text func(t *testing.T, s *subject) string, steps int, seed uint64) {
	type counted struct {
		*native.Script
		*native.Runs
	}
	runs := map[string]counted{}
	for i := range subjects {
		known := native.BySHA([]byte(subjects[i].sha))
		require.NotNil(t, known, subjects[i].sha)
		runs[subjects[i].sha] = counted{known, known.CountRuns()}
	}
	servers := newOracle(t)
	for i := range subjects {
		s := &subjects[i]
		t.Run(runs[s.sha].Library, func(t *testing.T) {
			servers.compare(t, s, text(t, s), steps, seed)
			asked, done := runs[s.sha].Asked.Load(), runs[s.sha].Done.Load()
			require.Greater(t, done, asked/2, "of %d calls", asked)
		})
	}
}

// Known scripts reply and store the same as redis-server and the interpreter,
// for texts that do the same.
func TestKnownScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, and one client")
	}
	// Two may do the same: the end of the text distinguishes them.
	text := func(_ *testing.T, s *subject) string { return s.own + "\n-- as " + s.sha }
	for i := range subjects {
		s := &subjects[i]
		native.BySHA([]byte(s.sha)).Also(script.Digest([]byte(text(t, s))))
	}
	compareAll(t, text, 100, 1)
}

// The same for the texts that libraries send, which the packages that they come
// from have. Those are known by their fingerprints, too.
func TestPublished(t *testing.T) {
	if !*publishedToo {
		t.Skip("fetches packages from their registries: make test-dropin runs it")
	}
	shelf := newShelf(t)
	seed := cmp.Or(*seedOfSteps, uint64(time.Now().UnixNano()))
	compareAll(t, func(t *testing.T, s *subject) string {
		body := shelf.text(t, s.sha)
		proto, err := lua.NewEnvironment().Compile("-- a copy\n" + body)
		require.NoError(t, err)
		require.Equal(t, native.BySHA([]byte(s.sha)), native.Find("", proto.Fingerprint(), ""), "a copy, whose fingerprint is %s", proto.Fingerprint())
		return body
	}, *stepsOfEach, seed)
}
