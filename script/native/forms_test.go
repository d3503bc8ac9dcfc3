package native_test

import (
	"flag"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/script/native"
)

var allForms = flag.Bool("forms", false, "compare every form with redis-server, not some")

// formSubjects are the scripts that have forms: own has what the parameters of
// their texts become.
var formSubjects = map[string]subject{
	"INCR and EXPIRE at the first":  {own: "9001 2 9002 1 9008 2", args: func(g *gen) []string { return []string{g.within(1, 3), g.within(0, 5)} }},
	"INCR and PEXPIRE at the first": {own: "9001 2 9002 1 9008 700", args: func(g *gen) []string { return []string{milliseconds(g), g.within(0, 5)} }},
	"ZREMRANGEBYSCORE, ZCARD and ZADD": {own: "9001 3 9002 2 9003 1 9006 4 9007 '-inf' 9008 2 9009 1000 9012 1 9013 0", other: logCommand2, args: func(g *gen) []string {
		return []string{clock(g), g.pick("1", "2", "500", "2000"), g.within(0, 4), g.within(1, 50)}
	}},
	"token bucket in HMGET and HSET": {own: "9001 1 9003 3 9004 2 9005 4 9008 2 9009 1000 9010 'tokens' 9011 'last_refill'", other: hashCommand, args: func(g *gen) []string {
		return []string{g.pick("1", "3", "5", "10"), g.pick("1", "2", "0.5", "3.7"), clock(g), g.pick("1", "1", "2", "0", "0.3")}
	}},
}

// A form does what redis-server and the interpreter do: some forms here, and all
// with -forms.
func TestForms(t *testing.T) {
	runs := native.CountForms()
	servers := newOracle(t)
	steps := 60
	if testing.Short() {
		steps = 15
	}
	for library, texts := range native.FormTexts() {
		s, ok := formSubjects[library]
		require.True(t, ok, library)
		s.name, s.keys = library, 1
		spelling := strings.NewReplacer(strings.Fields(s.own)...)
		t.Run(library, func(t *testing.T) {
			slices.Sort(texts)
			asked, done := runs.Asked.Load(), runs.Done.Load()
			every := 1 + len(texts)/10
			if *allForms {
				every = 1
			}
			for i := 0; i < len(texts); i += every {
				text := spelling.Replace(texts[i])
				require.NotNil(t, native.Find("", lua.Fingerprint{}, text), text)
				servers.compare(t, &s, text, steps, uint64(i))
				require.False(t, t.Failed(), text)
			}
			asked, done = runs.Asked.Load()-asked, runs.Done.Load()-done
			require.Greater(t, done, asked/2, "of %d calls", asked)
		})
	}
}

// clock is the time of a caller, in s or in ms, now and then of one whose clock
// is late.
func clock(g *gen) string {
	at := g.now.UnixMilli()
	if g.chance(10) {
		at -= int64(g.IntN(3000))
	}
	switch g.IntN(4) {
	case 0:
		return strconv.FormatInt(at/1000, 10)
	case 1:
		return strconv.FormatFloat(float64(at)/1000, 'f', -1, 64)
	}
	return strconv.FormatInt(at, 10)
}

// logCommand2 is what others do to a log.
func logCommand2(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	return [][]string{
		{"DEL", key}, {"ZADD", key, clock(g), g.within(1, 50)}, {"ZADD", key, g.pick("-1", "0", "5"), g.within(1, 50)}, {"ZREM", key, g.within(1, 50)}, {"ZCARD", key}, {"PERSIST", key},
	}[g.IntN(6)]
}

// hashCommand is what others do to a bucket.
func hashCommand(g *gen, key string) []string {
	if g.chance(10) {
		return g.spoil(key)
	}
	return [][]string{
		{"DEL", key}, {"HSET", key, "tokens", g.pick("0", "1", "2.5", "-1", "7", "1e-7", "x")}, {"HSET", key, "last_refill", clock(g)}, {"HDEL", key, g.pick("tokens", "last_refill")},
		{"HSET", key, "other", "1"}, {"HGETALL", key}, {"PERSIST", key},
	}[g.IntN(7)]
}
