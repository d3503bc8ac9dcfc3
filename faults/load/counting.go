package load

import (
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/resp"
)

// countings are the commands that limiters without scripts count calls with, by their names in history.Key. They count
// up whatever the limit is, and the client compares. With one unit a call, that decides as a fixed window does.
//
// Each charge adds one to the count of the key's calls. It is a transaction where it takes several commands. KEY stands
// for the key, ID for a text that no other call has, and PERIOD for the milliseconds that the key lives.
var countings = map[string]struct {
	charge []string
	count  int // which of the charge's replies is the count
	peek   string
}{
	"INCR":          {[]string{"INCR KEY"}, 0, "GET KEY"},
	"INCRBY EXPIRE": {[]string{"INCRBY KEY 1", "EXPIRE KEY 86400"}, 0, "GET KEY"},
	"INCR PEXPIRE":  {[]string{"INCR KEY", "PEXPIRE KEY PERIOD NX"}, 0, "GET KEY"},
	"APPEND":        {[]string{"APPEND KEY x"}, 0, "STRLEN KEY"},
	"HINCRBY":       {[]string{"HINCRBY KEY calls 1"}, 0, "HGET KEY calls"},
	"HSET HLEN":     {[]string{"HSET KEY ID 1", "HLEN KEY"}, 1, "HLEN KEY"},
	"ZINCRBY":       {[]string{"ZINCRBY KEY 1 calls"}, 0, "ZSCORE KEY calls"},
	"ZADD ZCARD":    {[]string{"ZADD KEY 1 ID", "ZCARD KEY"}, 1, "ZCARD KEY"},
	"RPUSH":         {[]string{"RPUSH KEY ID"}, 0, "LLEN KEY"},
	"SADD SCARD":    {[]string{"SADD KEY ID", "SCARD KEY"}, 1, "SCARD KEY"},
}

func isCounting(key history.Key) bool {
	_, ok := countings[key.Command]
	return ok
}

// counting returns the commands of a charge or a peek of a key that commands count, or nil.
func counting(c *history.Call, key history.Key) [][]string {
	form, ok := countings[key.Command]
	if !ok || c.Kind != history.Limit {
		return nil
	}
	fill := func(template string) []string {
		words := strings.Fields(template)
		for i, w := range words {
			switch w {
			case "KEY":
				words[i] = key.Name
			case "ID":
				words[i] = id(c)
			case "PERIOD":
				words[i] = strconv.FormatInt(key.Period.Milliseconds(), 10)
			}
		}
		return words
	}
	if c.Cost == 0 {
		return [][]string{fill(form.peek)}
	}
	if len(form.charge) == 1 {
		return [][]string{fill(form.charge[0])}
	}
	commands := [][]string{{"MULTI"}}
	for _, template := range form.charge {
		commands = append(commands, fill(template))
	}
	return append(commands, []string{"EXEC"})
}

// id is what no other call has: calls are due at different times.
func id(c *history.Call) string { return strconv.FormatInt(c.Due, 36) }

// malformed is the code of a reply that is none.
const malformed = "malformed"

// compare fills in what a client that counts decides. It returns the code of an error reply, or "".
func compare(c *history.Call, r *resp.Reply, key history.Key) string {
	if form := countings[key.Command]; c.Cost != 0 && len(form.charge) > 1 {
		if len(r.Elems) != len(form.charge) {
			return malformed
		}
		r = &r.Elems[form.count]
	}
	n := r.Int
	if r.Type != ':' && r.Type != '_' { // a counter's text, a score
		f, err := strconv.ParseFloat(r.Str, 64)
		if err != nil {
			return malformed
		}
		n = int64(f)
	}
	c.Outcome = history.Admitted
	if c.Cost != 0 && n > int64(c.Limit) {
		c.Outcome = history.Denied
	}
	c.Remaining = int32(max(0, int64(c.Limit)-n))
	return ""
}
